// Methods of texts, lists and dicts, as attributes of their values.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/chat/interpreter.h"

namespace hydrant::engine::chat {
namespace {

constexpr std::string_view kDictMethods[] = {"copy", "get", "items", "keys", "values"};
constexpr std::string_view kSequenceMethods[] = {"copy", "count", "index"};
constexpr std::string_view kStringMethods[] = {
    "capitalize",  "casefold",   "center",     "count",        "endswith",     "expandtabs",
    "find",        "format",     "format_map", "index",        "isalnum",      "isalpha",
    "isascii",     "isdecimal",  "isdigit",    "isidentifier", "islower",      "isnumeric",
    "isprintable", "isspace",    "istitle",    "isupper",      "join",         "ljust",
    "lower",       "lstrip",     "partition",  "removeprefix", "removesuffix", "replace",
    "rfind",       "rindex",     "rjust",      "rpartition",   "rsplit",       "rstrip",
    "split",       "splitlines", "startswith", "strip",        "swapcase",     "title",
    "upper",       "zfill"};
// What would change the value: the sandbox hides it, also from keys of that name.
constexpr std::string_view kUnsafeDictMethods[] = {"clear", "pop", "popitem", "setdefault",
                                                   "update"};
constexpr std::string_view kUnsafeListMethods[] = {"append", "clear",  "extend",  "insert",
                                                   "pop",    "remove", "reverse", "sort"};

template <size_t N>
bool IsOneOf(std::string_view name, const std::string_view (&names)[N]) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool IsUnsafe(const Value& value, std::string_view name) {
  if (value.is(Value::kDict)) return IsOneOf(name, kUnsafeDictMethods);
  return value.is(Value::kList) && IsOneOf(name, kUnsafeListMethods);
}

Value CallDictMethod(Interpreter& interpreter, const Value& self, std::string_view name,
                     const Arguments& arguments) {
  const Dict& dict = self.dict();
  if (name == "get") {
    if (arguments.positional.empty()) return interpreter.Fail("get() needs a key");
    if (const Value* found = dict.Find(arguments.positional[0])) return *found;
    return arguments.positional.size() > 1 ? arguments.positional[1] : Value::None();
  }
  if (name == "copy") return self;
  std::vector<Value> items;
  interpreter.Charge(dict.size() * 2 * sizeof(Value));
  for (const auto& [key, value] : dict.entries()) {
    items.push_back(name == "keys" ? key : name == "values" ? value : Value::Tuple({key, value}));
  }
  return Value::View(std::move(items));
}

Value CallSequenceMethod(Interpreter& interpreter, const Value& self, std::string_view name,
                         const Arguments& arguments) {
  if (name == "copy") return self;
  if (arguments.positional.size() != 1) {
    return interpreter.Fail(absl::StrCat(std::string(name), "() takes one argument"));
  }
  const std::vector<Value>& items = self.items();
  const auto equal = [&](const Value& item) { return Equal(item, arguments.positional[0]); };
  if (name == "count") return Value::Int(std::count_if(items.begin(), items.end(), equal));
  const auto found = std::find_if(items.begin(), items.end(), equal);
  if (found == items.end()) return interpreter.Fail("index(): the value is not in the list");
  return Value::Int(found - items.begin());
}

class BoundMethod : public Object {
 public:
  BoundMethod(Value self, std::string_view name) : self_(std::move(self)), name_(name) {}
  std::string_view type_name() const override { return "builtin_function_or_method"; }
  std::string Repr(int) const override {
    return absl::StrCat("<built-in method ", name_, " of ", self_.type_description(), ">");
  }
  Value Call(Interpreter& interpreter, const Arguments& arguments) override {
    if (self_.is(Value::kDict)) return CallDictMethod(interpreter, self_, name_, arguments);
    if (self_.is(Value::kString)) {
      return CallTextMethod(interpreter, self_, name_, arguments);
    }
    return CallSequenceMethod(interpreter, self_, name_, arguments);
  }

 private:
  const Value self_;
  const std::string name_;
};

}  // namespace

bool HasMethod(const Value& value, std::string_view name) {
  if (IsUnsafe(value, name)) return true;
  if (value.is(Value::kDict)) return IsOneOf(name, kDictMethods);
  if (value.is(Value::kString)) return IsOneOf(name, kStringMethods);
  return (value.is(Value::kList) || value.is(Value::kTuple)) && IsOneOf(name, kSequenceMethods);
}

Value BindMethod(const Value& value, std::string_view name) {
  if (IsUnsafe(value, name)) {
    return Value::Undefined(absl::StrCat("access to attribute '", std::string(name), "' of ",
                                         value.type_description(), " is unsafe"));
  }
  return Value::OfObject(std::make_shared<BoundMethod>(value, name));
}

}  // namespace hydrant::engine::chat
