// The functions that templates find beside their variables.

#include <ctime>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/chat/interpreter.h"

namespace hydrant::engine::chat {
namespace {

constexpr int64_t kMaxRange = 100'000;  // as in Jinja's sandbox
constexpr size_t kMaxTimeText = 4096;

class Function : public Object {
 public:
  Function(std::string_view name, GlobalFunction function) : name_(name), function_(function) {}
  std::string_view type_name() const override { return "function"; }
  std::string Repr(int) const override { return absl::StrCat("<function ", name_, ">"); }
  Value Call(Interpreter& interpreter, const Arguments& arguments) override {
    return function_(interpreter, arguments);
  }

 private:
  const std::string name_;
  const GlobalFunction function_;
};

class Namespace : public Object {
 public:
  std::string_view type_name() const override { return "Namespace"; }
  bool callable() const override { return false; }
  std::string Repr(int depth) const override {
    std::string out = "<Namespace {";
    const char* between = "";
    for (const auto& [name, value] : attributes_) {
      absl::StrAppend(&out, between, StringRepr(name), ": ",
                      value.is(Value::kObject) ? "..." : value.Repr(depth + 1));
      between = ", ";
    }
    return out + "}>";
  }
  std::optional<Value> Attribute(std::string_view name) const override {
    for (const auto& [key, value] : attributes_) {
      if (key == name) return value;
    }
    return std::nullopt;
  }
  bool SetAttribute(std::string_view name, Value value) override {
    for (auto& [key, held] : attributes_) {
      if (key == name) {
        held = std::move(value);
        return true;
      }
    }
    attributes_.emplace_back(name, std::move(value));
    return true;
  }
  void Forget() override { attributes_.clear(); }

 private:
  std::vector<std::pair<std::string, Value>> attributes_;
};

class Joiner : public Object {
 public:
  explicit Joiner(Value separator) : separator_(std::move(separator)) {}
  std::string_view type_name() const override { return "Joiner"; }
  Value Call(Interpreter&, const Arguments&) override {
    return std::exchange(used_, true) ? separator_ : Value::String("");
  }

 private:
  const Value separator_;
  bool used_ = false;
};

class Cycler : public Object {
 public:
  explicit Cycler(std::vector<Value> items) : items_(std::move(items)) {}
  std::string_view type_name() const override { return "Cycler"; }
  std::optional<Value> Attribute(std::string_view name) const override;
  Value Call(Interpreter&, const Arguments&) override { return Value(); }

  const std::vector<Value> items_;
  mutable std::shared_ptr<size_t> at_ = std::make_shared<size_t>(0);
};

class CyclerMethod : public Object {
 public:
  CyclerMethod(std::vector<Value> items, std::shared_ptr<size_t> at, bool resets)
      : items_(std::move(items)), at_(std::move(at)), resets_(resets) {}
  std::string_view type_name() const override { return "method"; }
  Value Call(Interpreter&, const Arguments&) override {
    if (resets_) {
      *at_ = 0;
      return Value::None();
    }
    const size_t at = *at_;
    *at_ = (at + 1) % items_.size();
    return items_[at];
  }

 private:
  const std::vector<Value> items_;
  const std::shared_ptr<size_t> at_;
  const bool resets_;
};

std::optional<Value> Cycler::Attribute(std::string_view name) const {
  if (name == "current") return items_[*at_];
  if (name != "next" && name != "reset") return std::nullopt;
  return Value::OfObject(std::make_shared<CyclerMethod>(items_, at_, name == "reset"));
}

Value Range(Interpreter& interpreter, const Arguments& arguments) {
  int64_t bounds[3] = {0, 0, 1};
  const size_t count = arguments.positional.size();
  if (count < 1 || count > 3 || !arguments.named.empty()) {
    return interpreter.Fail("range() takes one to three integers");
  }
  for (size_t i = 0; i < count; ++i) {
    const Value& bound = arguments.positional[i];
    if (!bound.is_integer()) return interpreter.Fail("range() takes integers");
    bounds[count == 1 ? 1 : i] = bound.integer();
  }
  const auto [start, stop, step] = bounds;
  if (step == 0) return interpreter.Fail("range(): the step is zero");
  std::vector<Value> items;
  for (__int128 at = start; step > 0 ? at < stop : at > stop; at += step) {
    if (items.size() == kMaxRange) {
      return interpreter.Fail(absl::StrCat("range(): more than ", kMaxRange, " items"));
    }
    items.push_back(Value::Int(static_cast<int64_t>(at)));
  }
  return interpreter.MakeList(std::move(items));
}

// What dict(...) and namespace(...) take: a dict or pairs, and names.
Dict DictOf(Interpreter& interpreter, const Arguments& arguments) {
  Dict dict;
  if (arguments.positional.size() > 1) {
    interpreter.Fail("more than one positional argument");
    return dict;
  }
  if (!arguments.positional.empty()) {
    const Value& from = arguments.positional[0];
    if (from.is(Value::kDict)) {
      dict = from.dict();
    } else {
      for (const Value& pair : interpreter.Iterate(from)) {
        const std::vector<Value> parts = interpreter.Iterate(pair);
        if (parts.size() != 2 || !dict.Set(parts[0], parts[1])) {
          interpreter.Fail("an item is no pair of a key and a value");
          return dict;
        }
      }
    }
  }
  for (const auto& [name, value] : arguments.named) dict.Set(Value::String(name), value);
  interpreter.Charge(dict.size() * 2 * sizeof(Value));
  if (dict.depth() > kMaxDepth) interpreter.Fail("dicts are nested too deeply");
  return dict;
}

Value MakeDict(Interpreter& interpreter, const Arguments& arguments) {
  return Value::OfDict(DictOf(interpreter, arguments));
}

Value MakeNamespace(Interpreter& interpreter, const Arguments& arguments) {
  const Dict dict = DictOf(interpreter, arguments);
  auto made = std::make_shared<Namespace>();
  for (const auto& [name, value] : dict.entries()) {
    if (name.Str().starts_with('_')) {
      return interpreter.Fail("attributes of a namespace cannot begin with an underscore");
    }
    made->SetAttribute(name.Str(), value);
  }
  return interpreter.Adopt(std::move(made));
}

Value MakeJoiner(Interpreter&, const Arguments& arguments) {
  const Value* separator = arguments.Find(0, "sep");
  return Value::OfObject(std::make_shared<Joiner>(separator ? *separator : Value::String(", ")));
}

Value MakeCycler(Interpreter& interpreter, const Arguments& arguments) {
  if (arguments.positional.empty()) return interpreter.Fail("cycler() needs items");
  return Value::OfObject(std::make_shared<Cycler>(arguments.positional));
}

Value RaiseException(Interpreter& interpreter, const Arguments& arguments) {
  const Value* message = arguments.Find(0, "message");
  return interpreter.Fail(message ? message->Str() : "raise_exception() without a message");
}

Value StrftimeNow(Interpreter& interpreter, const Arguments& arguments) {
  const Value* format = arguments.Find(0, "format");
  if (!format || !format->is(Value::kString)) {
    return interpreter.Fail("strftime_now() takes a format");
  }
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  localtime_r(&now, &local);
  char text[kMaxTimeText];
  const size_t size = std::strftime(text, sizeof(text), format->text().c_str(), &local);
  if (size == 0 && !format->text().empty()) {
    return interpreter.Fail("strftime_now(): the format is too long");
  }
  return interpreter.MakeString(std::string(text, size));
}

}  // namespace

GlobalFunction FindGlobal(std::string_view name) {
  if (name == "range") return Range;
  if (name == "dict") return MakeDict;
  if (name == "namespace") return MakeNamespace;
  if (name == "joiner") return MakeJoiner;
  if (name == "cycler") return MakeCycler;
  if (name == "raise_exception") return RaiseException;
  if (name == "strftime_now") return StrftimeNow;
  return nullptr;
}

Value MakeFunction(std::string_view name, GlobalFunction function) {
  return Value::OfObject(std::make_shared<Function>(name, function));
}

}  // namespace hydrant::engine::chat
