// The values of a chat template: those of Python that Jinja templates meet. Lists, tuples and dicts
// cannot change once made (the sandbox that Hugging Face renders in forbids it); namespaces can.

#ifndef HYDRANT_ENGINE_CHAT_VALUE_H_
#define HYDRANT_ENGINE_CHAT_VALUE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace hydrant::engine::chat {

class Value;
class Dict;
class Interpreter;

// Arguments of a call, evaluated.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  // Argument `index` or the one called `name`; null where neither was given.
  const Value* Find(size_t index, std::string_view name) const;
};

// Whatever has an identity: functions, macros, bound methods, namespaces, loops.
class Object {
 public:
  virtual ~Object() = default;
  virtual std::string_view type_name() const = 0;
  virtual bool callable() const { return true; }
  virtual bool SetAttribute(std::string_view name, Value value);  // false: there are none to set
  virtual void Forget() {}                                        // all values held
  // As Python's repr.
  virtual std::string Repr(int depth) const;
  // Errors go to the interpreter; the result then does not matter.
  virtual Value Call(Interpreter& interpreter, const Arguments& arguments);
  // nullopt: there is no such attribute.
  virtual std::optional<Value> Attribute(std::string_view name) const;
};

// A sequence. `depth` bounds every recursion over values.
struct Sequence {
  std::vector<Value> items;
  int depth = 1;
  bool is_group = false;  // of the filter groupby: a tuple of "grouper" and "list"
};

class Value {
 public:
  enum Kind {
    kUndefined,
    kNone,
    kBool,
    kInt,
    kFloat,
    kString,
    kList,
    kTuple,
    kView,       // a dict's keys, values or items: a sequence without an index
    kGenerator,  // a sequence that is used up by reading it
    kDict,
    kObject,
  };

  Value() : kind_(kUndefined) {}
  static Value Undefined(std::string why);
  static Value None();
  static Value Bool(bool value);
  static Value Int(int64_t value);
  static Value Float(double value);
  static Value String(std::string text);
  static Value List(std::vector<Value> items) { return Make(kList, std::move(items)); }
  static Value Tuple(std::vector<Value> items) { return Make(kTuple, std::move(items)); }
  static Value View(std::vector<Value> items) { return Make(kView, std::move(items)); }
  static Value Generator(std::vector<Value> items) { return Make(kGenerator, std::move(items)); }
  static Value Group(Value grouper, Value list);
  static Value OfDict(Dict dict);
  static Value OfObject(std::shared_ptr<Object> object);

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_sequence() const { return kind_ >= kList && kind_ <= kGenerator; }
  bool is_group() const;
  bool is_number() const { return kind_ >= kBool && kind_ <= kFloat; }
  bool is_integer() const { return kind_ == kBool || kind_ == kInt; }

  int64_t integer() const;  // of kBool and kInt
  double number() const;    // of every number
  const std::string& text() const;
  const std::vector<Value>& items() const;
  std::vector<Value> TakeItems() const;  // as items(), and uses up a generator
  const Dict& dict() const;
  Object& object() const;
  const std::shared_ptr<Object>& shared_object() const;
  // Of a text: HTML that has been escaped (MarkupSafe's Markup). What is joined to it is escaped.
  bool is_markup() const { return markup_; }
  Value AsMarkup() const;  // a text as such; any other value as it is
  // Why an undefined value is.
  std::string_view why() const;

  bool Truthy() const;
  bool SameAs(const Value& other) const;  // Python's "is"
  int depth() const;

  std::string Str() const;                // Python's str
  std::string Repr(int depth = 0) const;  // and repr
  std::string_view type_name() const;     // of its type
  std::string type_description() const;   // as Jinja speaks of it in messages

 private:
  static Value Make(Kind kind, std::vector<Value> items);

  Kind kind_;
  bool markup_ = false;
  std::variant<std::monostate, int64_t, double, std::shared_ptr<const std::string>,
               std::shared_ptr<Sequence>, std::shared_ptr<const Dict>, std::shared_ptr<Object>>
      data_;
};

// Entries in the order of their making.
class Dict {
 public:
  using Entry = std::pair<Value, Value>;

  // False when `key` cannot be one.
  bool Set(Value key, Value value);
  const Value* Find(const Value& key) const;
  const Value* Find(std::string_view key) const;
  const std::vector<Entry>& entries() const { return entries_; }
  size_t size() const { return entries_.size(); }
  int depth() const { return depth_; }

 private:
  std::vector<Entry> entries_;
  absl::flat_hash_map<std::string, size_t> index_;  // by HashKey
  int depth_ = 1;
};

// Equal exactly for the keys that Python holds equal; nullopt for what cannot be hashed.
std::optional<std::string> HashKey(const Value& value);

bool Equal(const Value& a, const Value& b);
// Less than zero, zero, more than zero; nullopt where Python knows no order.
std::optional<int> Compare(const Value& a, const Value& b);

std::string FloatRepr(double value);
std::string StringRepr(std::string_view text);

}  // namespace hydrant::engine::chat

#endif  // HYDRANT_ENGINE_CHAT_VALUE_H_
