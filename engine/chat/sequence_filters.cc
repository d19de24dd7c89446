// Jinja's filters of sequences (filters.py).

#include <algorithm>
#include <charconv>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/chat/characters.h"
#include "engine/chat/interpreter.h"

namespace hydrant::engine::chat {
namespace {

const Value* Given(const Arguments& arguments, size_t index, std::string_view name) {
  const Value* value = arguments.Find(index, name);
  return value && !value->is(Value::kNone) ? value : nullptr;
}

bool Flag(const Arguments& arguments, size_t index, std::string_view name) {
  const Value* value = arguments.Find(index, name);
  return value && value->Truthy();
}

// "a.b.0" of an item, part by part; the item itself where `attribute` is null.
Value AttributeOf(Interpreter& interpreter, const Value& item, const Value* attribute,
                  const Value* absent = nullptr) {
  if (!attribute) return item;
  if (!attribute->is(Value::kString)) return interpreter.GetItem(item, *attribute);
  Value value = item;
  std::string_view rest = attribute->text();
  while (interpreter.ok()) {
    const size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    int64_t index;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool is_index =
        !part.empty() && part[0] != '-' && error == std::errc() && end == part.data() + part.size();
    value =
        interpreter.GetItem(value, is_index ? Value::Int(index) : Value::String(std::string(part)));
    if (absent && value.is(Value::kUndefined)) value = *absent;
    if (dot == std::string_view::npos) break;
    rest.remove_prefix(dot + 1);
  }
  return value;
}

Value IgnoreCase(const Value& value) {
  return value.is(Value::kString) ? Value::String(Lower(value.text())) : value;
}

struct Keyed {
  std::vector<Value> keys;
  Value item;
};

// Stable; a failed comparison ends it with an error.
void Sort(Interpreter& interpreter, std::vector<Keyed>& items, bool reverse) {
  const auto less = [&](const Keyed& a, const Keyed& b) {
    if (!interpreter.Step()) return false;
    for (size_t i = 0; i < a.keys.size(); ++i) {
      if (Equal(a.keys[i], b.keys[i])) continue;
      return interpreter.Compare("<", a.keys[i], b.keys[i]);
    }
    return false;
  };
  // Python keeps the order of equals when reversed.
  std::stable_sort(items.begin(), items.end(), [&](const Keyed& a, const Keyed& b) {
    return reverse ? less(b, a) : less(a, b);
  });
}

// Items with the keys of one attribute, or of several with commas between ("a,b").
std::vector<Keyed> KeyedItems(Interpreter& interpreter, const Value& value, const Value* attribute,
                              bool case_sensitive, const Value* absent = nullptr) {
  std::vector<Value> attributes;
  if (attribute && attribute->is(Value::kString)) {
    const Arguments comma{{Value::String(",")}, {}};
    attributes =
        interpreter.Iterate(CallStringMethod(interpreter, attribute->text(), "split", comma));
  } else if (attribute) {
    attributes.push_back(*attribute);
  }
  std::vector<Keyed> keyed;
  for (Value& item : interpreter.Iterate(value)) {
    Keyed entry;
    for (const Value& part : attributes) {
      entry.keys.push_back(AttributeOf(interpreter, item, &part, absent));
    }
    if (attributes.empty()) entry.keys.push_back(item);
    if (!case_sensitive) {
      for (Value& key : entry.keys) key = IgnoreCase(key);
    }
    entry.item = std::move(item);
    keyed.push_back(std::move(entry));
  }
  return keyed;
}

Value ItemsOf(Interpreter& interpreter, std::vector<Keyed> keyed) {
  std::vector<Value> items;
  for (Keyed& entry : keyed) items.push_back(std::move(entry.item));
  return interpreter.MakeList(std::move(items));
}

Value SortFilter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  std::vector<Keyed> keyed = KeyedItems(interpreter, value, Given(arguments, 2, "attribute"),
                                        Flag(arguments, 1, "case_sensitive"));
  Sort(interpreter, keyed, Flag(arguments, 0, "reverse"));
  return ItemsOf(interpreter, std::move(keyed));
}

Value DictSortFilter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  if (!value.is(Value::kDict)) return interpreter.Fail("dictsort needs a dict");
  const Value* by = Given(arguments, 1, "by");
  const std::string what = by ? by->Str() : "key";
  if (what != "key" && what != "value") return interpreter.Fail("dictsort sorts by key or value");
  std::vector<Value> pairs;
  for (const auto& [key, held] : value.dict().entries()) pairs.push_back(Value::Tuple({key, held}));
  const Value index = Value::Int(what == "key" ? 0 : 1);
  std::vector<Keyed> keyed = KeyedItems(interpreter, interpreter.MakeList(std::move(pairs)), &index,
                                        Flag(arguments, 0, "case_sensitive"));
  Sort(interpreter, keyed, Flag(arguments, 2, "reverse"));
  return ItemsOf(interpreter, std::move(keyed));
}

Value GroupByFilter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Value* attribute = Given(arguments, 0, "attribute");
  const Value* absent = Given(arguments, 1, "default");
  if (!attribute) return interpreter.Fail("groupby needs an attribute");
  const bool case_sensitive = Flag(arguments, 2, "case_sensitive");
  std::vector<Keyed> keyed = KeyedItems(interpreter, value, attribute, case_sensitive, absent);
  Sort(interpreter, keyed, /*reverse=*/false);
  std::vector<Value> groups;
  for (size_t i = 0; i < keyed.size() && interpreter.ok();) {
    std::vector<Value> members;
    size_t end = i;
    while (end < keyed.size() && Equal(keyed[end].keys[0], keyed[i].keys[0])) {
      members.push_back(keyed[end++].item);
    }
    const Value key = AttributeOf(interpreter, keyed[i].item, attribute, absent);
    groups.push_back(Value::Group(key, interpreter.MakeList(std::move(members))));
    i = end;
  }
  return interpreter.MakeList(std::move(groups));
}

Value UniqueFilter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  Dict seen;
  std::vector<Value> items;
  for (Keyed& entry : KeyedItems(interpreter, value, Given(arguments, 1, "attribute"),
                                 Flag(arguments, 0, "case_sensitive"))) {
    if (seen.Find(entry.keys[0])) continue;
    if (!seen.Set(entry.keys[0], Value::None()))
      return interpreter.Fail("unique: an item cannot be a key");
    items.push_back(std::move(entry.item));
  }
  return Value::Generator(std::move(items));
}

Value Extreme(Interpreter& interpreter, const Value& value, const Arguments& arguments,
              std::string_view better) {
  std::vector<Keyed> keyed = KeyedItems(interpreter, value, Given(arguments, 1, "attribute"),
                                        Flag(arguments, 0, "case_sensitive"));
  if (keyed.empty()) return Value::Undefined("No aggregated item, sequence was empty.");
  size_t best = 0;
  for (size_t i = 1; i < keyed.size(); ++i) {
    if (interpreter.Compare(better, keyed[i].keys[0], keyed[best].keys[0])) best = i;
  }
  return keyed[best].item;
}
Value MinFilter(Interpreter& i, const Value& v, const Arguments& a) {
  return Extreme(i, v, a, "<");
}
Value MaxFilter(Interpreter& i, const Value& v, const Arguments& a) {
  return Extreme(i, v, a, ">");
}

Value SumFilter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Value* attribute = Given(arguments, 0, "attribute");
  const Value* start = arguments.Find(1, "start");
  Value sum = start ? *start : Value::Int(0);
  for (const Value& item : interpreter.Iterate(value)) {
    sum = interpreter.Binary("+", sum, AttributeOf(interpreter, item, attribute));
  }
  return sum;
}

Value FirstFilter(Interpreter& interpreter, const Value& value, const Arguments&) {
  std::vector<Value> items = interpreter.Iterate(value);
  return items.empty() ? Value::Undefined("No first item, sequence was empty.") : items.front();
}

Value LastFilter(Interpreter& interpreter, const Value& value, const Arguments&) {
  if (value.is(Value::kGenerator)) return interpreter.Fail("last: a generator has no last item");
  std::vector<Value> items = interpreter.Iterate(value);
  return items.empty() ? Value::Undefined("No last item, sequence was empty.") : items.back();
}

Value ListFilter(Interpreter& interpreter, const Value& value, const Arguments&) {
  return interpreter.MakeList(interpreter.Iterate(value));
}

Value ReverseFilter(Interpreter& interpreter, const Value& value, const Arguments&) {
  std::vector<Value> items = interpreter.Iterate(value);
  std::reverse(items.begin(), items.end());
  if (!value.is(Value::kString)) return Value::Generator(std::move(items));
  std::string text;
  for (const Value& item : items) text += item.text();
  const Value reversed = interpreter.MakeString(std::move(text));
  return value.is_markup() ? reversed.AsMarkup() : reversed;
}

Value JoinFilter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Value* separator = arguments.Find(0, "d");
  const Value* attribute = Given(arguments, 1, "attribute");
  const std::string between = separator ? separator->Str() : "";
  std::string out;
  bool first = true;
  for (const Value& item : interpreter.Iterate(value)) {
    const std::string part = AttributeOf(interpreter, item, attribute).Str();
    if (!interpreter.Charge(part.size() + between.size())) break;
    if (!std::exchange(first, false)) out += between;
    out += part;
  }
  return interpreter.MakeString(std::move(out));
}

Value ItemsFilter(Interpreter& interpreter, const Value& value, const Arguments&) {
  if (value.is(Value::kUndefined)) return Value::Generator({});
  if (!value.is(Value::kDict)) return interpreter.Fail("items needs a dict");
  std::vector<Value> items;
  for (const auto& [key, held] : value.dict().entries()) items.push_back(Value::Tuple({key, held}));
  return Value::Generator(std::move(items));
}

Arguments Rest(const Arguments& arguments, size_t from) {
  Arguments rest;
  for (size_t i = from; i < arguments.positional.size(); ++i) {
    rest.positional.push_back(arguments.positional[i]);
  }
  rest.named = arguments.named;
  return rest;
}

Value MapFilter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  if (!value.Truthy()) return Value::Generator({});
  std::vector<Value> items;
  if (arguments.positional.empty()) {
    const Value* attribute = arguments.Find(SIZE_MAX, "attribute");
    if (!attribute) return interpreter.Fail("map needs a filter or an attribute");
    const Value* absent = Given(arguments, SIZE_MAX, "default");
    for (const Value& item : interpreter.Iterate(value)) {
      items.push_back(AttributeOf(interpreter, item, attribute, absent));
    }
    return Value::Generator(std::move(items));
  }
  const Arguments rest = Rest(arguments, 1);
  const std::string filter = arguments.positional[0].Str();
  for (const Value& item : interpreter.Iterate(value)) {
    items.push_back(interpreter.ApplyFilter(filter, item, rest));
    if (!interpreter.ok()) break;
  }
  return Value::Generator(std::move(items));
}

Value Choose(Interpreter& interpreter, const Value& value, const Arguments& arguments,
             bool by_attribute, bool keep) {
  if (!value.Truthy()) return Value::Generator({});
  const size_t test_at = by_attribute ? 1 : 0;
  if (by_attribute && arguments.positional.empty()) {
    return interpreter.Fail("the name of an attribute is missing");
  }
  const Value* attribute = by_attribute ? &arguments.positional[0] : nullptr;
  const bool has_test = arguments.positional.size() > test_at;
  const std::string test = has_test ? arguments.positional[test_at].Str() : "";
  const Arguments rest = Rest(arguments, test_at + 1);
  std::vector<Value> items;
  for (Value& item : interpreter.Iterate(value)) {
    const Value tested = AttributeOf(interpreter, item, attribute);
    const bool holds = has_test ? interpreter.ApplyTest(test, tested, rest) : tested.Truthy();
    if (!interpreter.ok()) break;
    if (holds == keep) items.push_back(std::move(item));
  }
  return Value::Generator(std::move(items));
}
Value SelectFilter(Interpreter& i, const Value& v, const Arguments& a) {
  return Choose(i, v, a, /*by_attribute=*/false, /*keep=*/true);
}
Value RejectFilter(Interpreter& i, const Value& v, const Arguments& a) {
  return Choose(i, v, a, /*by_attribute=*/false, /*keep=*/false);
}
Value SelectAttrFilter(Interpreter& i, const Value& v, const Arguments& a) {
  return Choose(i, v, a, /*by_attribute=*/true, /*keep=*/true);
}
Value RejectAttrFilter(Interpreter& i, const Value& v, const Arguments& a) {
  return Choose(i, v, a, /*by_attribute=*/true, /*keep=*/false);
}

// A positive integer argument, at most the length of a range; 0 and an error where it is none.
size_t Size(Interpreter& interpreter, const Arguments& arguments, std::string_view name) {
  const Value* size = arguments.Find(0, name);
  if (size && size->is_integer() && size->integer() > 0 && size->integer() <= 100'000) {
    return static_cast<size_t>(size->integer());
  }
  interpreter.Fail(absl::StrCat("the argument '", std::string(name), "' is not in 1 to 100000"));
  return 0;
}

Value BatchFilter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const size_t size = Size(interpreter, arguments, "linecount");
  const Value* fill = Given(arguments, 1, "fill_with");
  const std::vector<Value> items = interpreter.Iterate(value);
  std::vector<Value> batches;
  for (size_t i = 0; i < items.size() && interpreter.ok(); i += size) {
    std::vector<Value> batch(items.begin() + i, items.begin() + std::min(i + size, items.size()));
    if (fill) batch.resize(size, *fill);
    batches.push_back(interpreter.MakeList(std::move(batch)));
  }
  return Value::Generator(std::move(batches));
}

Value SliceFilter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const size_t slices = Size(interpreter, arguments, "slices");
  const Value* fill = Given(arguments, 1, "fill_with");
  const std::vector<Value> items = interpreter.Iterate(value);
  std::vector<Value> out;
  size_t begin = 0;
  for (size_t i = 0; i < slices && interpreter.ok(); ++i) {
    const bool extra = i < items.size() % slices;
    const size_t end = begin + items.size() / slices + extra;
    std::vector<Value> slice(items.begin() + begin, items.begin() + end);
    if (fill && !extra) slice.push_back(*fill);
    out.push_back(interpreter.MakeList(std::move(slice)));
    begin = end;
  }
  return Value::Generator(std::move(out));
}

}  // namespace

FilterFunction FindSequenceFilter(std::string_view name) {
  static constexpr std::pair<std::string_view, FilterFunction> kFilters[] = {
      {"batch", BatchFilter},
      {"dictsort", DictSortFilter},
      {"first", FirstFilter},
      {"groupby", GroupByFilter},
      {"items", ItemsFilter},
      {"join", JoinFilter},
      {"last", LastFilter},
      {"list", ListFilter},
      {"map", MapFilter},
      {"max", MaxFilter},
      {"min", MinFilter},
      {"reject", RejectFilter},
      {"rejectattr", RejectAttrFilter},
      {"reverse", ReverseFilter},
      {"select", SelectFilter},
      {"selectattr", SelectAttrFilter},
      {"slice", SliceFilter},
      {"sort", SortFilter},
      {"sum", SumFilter},
      {"unique", UniqueFilter},
  };
  for (const auto& [known, filter] : kFilters) {
    if (known == name) return filter;
  }
  return nullptr;
}

}  // namespace hydrant::engine::chat
