// The rules of Jinja's expressions, from the loosest to the tightest binding.

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/chat/parser.h"

namespace hydrant::engine::chat {
namespace {

constexpr int kMaxDepth = 150;

bool IsOneOf(std::string_view text, std::initializer_list<std::string_view> choices) {
  for (const std::string_view choice : choices) {
    if (text == choice) return true;
  }
  return false;
}

}  // namespace

ExpressionPtr Parser::Make(Expression::Kind kind, Position position) const {
  auto expression = std::make_unique<Expression>();
  expression->kind = kind;
  expression->position = position;
  return expression;
}

ExpressionPtr Parser::ParseExpression(bool conditional) {
  if (++depth_ > kMaxDepth) Fail(Peek().position, "an expression is nested too deeply");
  ExpressionPtr expression = !ok()         ? Make(Expression::kConstant, Peek().position)
                             : conditional ? ParseConditional()
                                           : ParseOr();
  --depth_;
  return expression;
}

ExpressionPtr Parser::ParseTuple(bool conditional, bool parenthesised, TupleEnd end) {
  const Position position = Peek().position;
  const auto at_end = [&] {
    return Peek().kind == Token::kOutputEnd || Peek().kind == Token::kBlockEnd || AtOperator(")") ||
           (end == TupleEnd::kIn && AtName("in")) ||
           (end == TupleEnd::kRecursive && AtName("recursive"));
  };
  std::vector<ExpressionPtr> items;
  bool is_tuple = false;
  while (ok()) {
    if (!items.empty()) ExpectOperator(",");
    if (at_end()) break;
    items.push_back(ParseExpression(conditional));
    if (!AtOperator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !items.empty()) return std::move(items[0]);
  if (!is_tuple && !parenthesised) Unexpected("an expression");
  ExpressionPtr tuple = Make(Expression::kTuple, position);
  tuple->operands = std::move(items);
  return tuple;
}

ExpressionPtr Parser::ParseTarget(bool with_namespace, TupleEnd end) {
  const Position position = Peek().position;
  std::vector<ExpressionPtr> items;
  bool is_tuple = false;
  while (ok()) {
    if (!items.empty()) ExpectOperator(",");
    if (Peek().kind == Token::kBlockEnd || AtOperator(")") ||
        (end == TupleEnd::kIn && AtName("in"))) {
      break;
    }
    if (with_namespace && Peek().kind == Token::kName && Peek(1).Is(Token::kOperator, ".")) {
      ExpressionPtr item = Make(Expression::kNamespaceAttribute, Peek().position);
      item->name = ExpectAnyName();
      ++at_;
      item->attribute = ExpectAnyName();
      items.push_back(std::move(item));
    } else {
      items.push_back(ParsePrimary());
      CheckTarget(*items.back());
    }
    if (!AtOperator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && items.size() == 1) return std::move(items[0]);
  if (items.empty()) Unexpected("a name");
  ExpressionPtr tuple = Make(Expression::kTuple, position);
  tuple->operands = std::move(items);
  return tuple;
}

bool Parser::CheckTarget(const Expression& target) {
  if (target.kind == Expression::kName) return true;
  if (target.kind == Expression::kTuple || target.kind == Expression::kList) {
    for (const ExpressionPtr& item : target.operands) {
      if (!CheckTarget(*item)) return false;
    }
    return true;
  }
  Fail(target.position, "this cannot be assigned to");
  return false;
}

ExpressionPtr Parser::ParseConditional() {
  ExpressionPtr result = ParseOr();
  while (ok() && AtName("if")) {
    ExpressionPtr conditional = Make(Expression::kConditional, Peek().position);
    ++at_;
    conditional->operands.push_back(ParseOr());
    conditional->operands.push_back(std::move(result));
    conditional->operands.push_back(AcceptName("else") ? ParseExpression() : nullptr);
    result = std::move(conditional);
  }
  return result;
}

ExpressionPtr Parser::ParseChain(std::string_view name, Expression::Kind kind,
                                 ExpressionPtr (Parser::*next)()) {
  ExpressionPtr left = (this->*next)();
  while (ok() && AtName(name)) {
    ExpressionPtr both = Make(kind, Peek().position);
    ++at_;
    both->operands.push_back(std::move(left));
    both->operands.push_back((this->*next)());
    left = std::move(both);
  }
  return left;
}

ExpressionPtr Parser::ParseOr() { return ParseChain("or", Expression::kOr, &Parser::ParseAnd); }

ExpressionPtr Parser::ParseAnd() { return ParseChain("and", Expression::kAnd, &Parser::ParseNot); }

ExpressionPtr Parser::ParseNot() {
  if (!AtName("not")) return ParseCompare();
  ExpressionPtr negation = Make(Expression::kNot, Peek().position);
  ++at_;
  if (++depth_ > kMaxDepth) Fail(Peek().position, "an expression is nested too deeply");
  negation->operands.push_back(ok() ? ParseNot() : Make(Expression::kConstant, Peek().position));
  --depth_;
  return negation;
}

ExpressionPtr Parser::ParseCompare() {
  ExpressionPtr first = ParseSum();
  ExpressionPtr compare;
  while (ok()) {
    std::string name;
    if (Peek().kind == Token::kOperator &&
        IsOneOf(Peek().text, {"==", "!=", "<", "<=", ">", ">="})) {
      name = Peek().text;
      ++at_;
    } else if (AcceptName("in")) {
      name = "in";
    } else if (AtName("not") && Peek(1).Is(Token::kName, "in")) {
      name = "not in";
      at_ += 2;
    } else {
      break;
    }
    if (!compare) {
      compare = Make(Expression::kCompare, first->position);
      compare->operands.push_back(std::move(first));
    }
    compare->operators.push_back(std::move(name));
    compare->operands.push_back(ParseSum());
  }
  return compare ? std::move(compare) : std::move(first);
}

ExpressionPtr Parser::ParseBinaryChain(std::initializer_list<std::string_view> operators,
                                       ExpressionPtr (Parser::*operand)()) {
  ExpressionPtr left = (this->*operand)();
  while (ok() && Peek().kind == Token::kOperator && IsOneOf(Peek().text, operators)) {
    ExpressionPtr binary = Make(Expression::kBinary, Peek().position);
    binary->name = Peek().text;
    ++at_;
    binary->operands.push_back(std::move(left));
    binary->operands.push_back((this->*operand)());
    left = std::move(binary);
  }
  return left;
}

ExpressionPtr Parser::ParseSum() { return ParseBinaryChain({"+", "-"}, &Parser::ParseConcat); }

ExpressionPtr Parser::ParseConcat() {
  ExpressionPtr first = ParseProduct();
  if (!AtOperator("~")) return first;
  ExpressionPtr concat = Make(Expression::kConcat, Peek().position);
  concat->operands.push_back(std::move(first));
  while (ok() && AcceptOperator("~")) concat->operands.push_back(ParseProduct());
  return concat;
}

ExpressionPtr Parser::ParseProduct() {
  return ParseBinaryChain({"*", "/", "//", "%"}, &Parser::ParsePower);
}

ExpressionPtr Parser::ParsePower() {
  ExpressionPtr left = ParseUnary(/*with_filter=*/true);
  while (ok() && AtOperator("**")) {
    ExpressionPtr power = Make(Expression::kBinary, Peek().position);
    power->name = "**";
    ++at_;
    power->operands.push_back(std::move(left));
    power->operands.push_back(ParseUnary(/*with_filter=*/true));
    left = std::move(power);
  }
  return left;
}

ExpressionPtr Parser::ParseUnary(bool with_filter) {
  ExpressionPtr operand;
  if (AtOperator("-") || AtOperator("+")) {
    operand =
        Make(AtOperator("-") ? Expression::kNegative : Expression::kPositive, Peek().position);
    ++at_;
    if (++depth_ > kMaxDepth) Fail(Peek().position, "an expression is nested too deeply");
    operand->operands.push_back(ok() ? ParseUnary(false)
                                     : Make(Expression::kConstant, Peek().position));
    --depth_;
  } else {
    operand = ParsePrimary();
  }
  operand = ParsePostfix(std::move(operand));
  return with_filter ? ParseFilterExpression(std::move(operand)) : std::move(operand);
}

ExpressionPtr Parser::ParseName() {
  const Token& token = Peek();
  ExpressionPtr expression = Make(Expression::kConstant, token.position);
  ++at_;
  if (IsOneOf(token.text, {"true", "True", "false", "False"})) {
    expression->constant = Value::Bool(token.text[0] == 't' || token.text[0] == 'T');
  } else if (token.text == "none" || token.text == "None") {
    expression->constant = Value::None();
  } else {
    expression->kind = Expression::kName;
    expression->name = token.text;
    if (!macros_.empty()) {
      macros_.back()->uses_varargs |= token.text == "varargs";
      macros_.back()->uses_kwargs |= token.text == "kwargs";
      macros_.back()->uses_caller |= token.text == "caller";
    }
  }
  return expression;
}

ExpressionPtr Parser::ParsePrimary() {
  const Token& token = Peek();
  if (token.kind == Token::kName) return ParseName();
  if (AtOperator("[")) return ParseListLiteral();
  if (AtOperator("{")) return ParseDictLiteral();
  ExpressionPtr expression = Make(Expression::kConstant, token.position);
  if (AcceptOperator("(")) {
    if (++depth_ > kMaxDepth) Fail(token.position, "an expression is nested too deeply");
    expression = ParseTuple(true, /*parenthesised=*/true, TupleEnd::kAnywhere);
    --depth_;
    ExpectOperator(")");
  } else if (token.kind == Token::kString) {
    std::string text;
    while (Peek().kind == Token::kString) text += tokens_[at_++].text;
    expression->constant = Value::String(std::move(text));
  } else if (token.kind == Token::kInteger) {
    expression->constant = Value::Int(token.integer);
    ++at_;
  } else if (token.kind == Token::kFloat) {
    expression->constant = Value::Float(token.number);
    ++at_;
  } else {
    Unexpected("an expression");
  }
  return expression;
}

ExpressionPtr Parser::ParseListLiteral() {
  ExpressionPtr list = Make(Expression::kList, Peek().position);
  ++at_;
  while (ok() && !AtOperator("]")) {
    if (!list->operands.empty()) ExpectOperator(",");
    if (AtOperator("]")) break;
    list->operands.push_back(ParseExpression());
  }
  ExpectOperator("]");
  return list;
}

ExpressionPtr Parser::ParseDictLiteral() {
  ExpressionPtr dict = Make(Expression::kDict, Peek().position);
  ++at_;
  while (ok() && !AtOperator("}")) {
    if (!dict->operands.empty()) ExpectOperator(",");
    if (AtOperator("}")) break;
    dict->operands.push_back(ParseExpression());
    ExpectOperator(":");
    dict->operands.push_back(ParseExpression());
  }
  ExpectOperator("}");
  return dict;
}

ExpressionPtr Parser::ParsePostfix(ExpressionPtr operand) {
  while (ok()) {
    if (AtOperator(".") || AtOperator("[")) {
      operand = ParseSubscript(std::move(operand));
    } else if (AtOperator("(")) {
      ExpressionPtr call = Make(Expression::kCall, Peek().position);
      call->operands.push_back(std::move(operand));
      ParseArguments(call->arguments);
      operand = std::move(call);
    } else {
      break;
    }
  }
  return operand;
}

ExpressionPtr Parser::ParseFilterExpression(ExpressionPtr operand) {
  while (ok()) {
    if (AtOperator("|")) {
      operand = ParseFilterChain(std::move(operand));
    } else if (AtName("is")) {
      operand = ParseTest(std::move(operand));
    } else if (AtOperator("(")) {
      ExpressionPtr call = Make(Expression::kCall, Peek().position);
      call->operands.push_back(std::move(operand));
      ParseArguments(call->arguments);
      operand = std::move(call);
    } else {
      break;
    }
  }
  return operand;
}

ExpressionPtr Parser::ParseSubscript(ExpressionPtr operand) {
  const Position position = Peek().position;
  if (AcceptOperator(".")) {
    ExpressionPtr get = Make(Expression::kGetAttr, position);
    get->operands.push_back(std::move(operand));
    if (Peek().kind == Token::kInteger) {
      get->kind = Expression::kGetItem;
      get->operands.push_back(ParsePrimary());
    } else {
      get->name = ExpectAnyName();
    }
    return get;
  }
  ++at_;  // "["
  std::vector<ExpressionPtr> indices;
  bool is_tuple = false;
  while (ok() && !AtOperator("]")) {
    if (!indices.empty()) {
      ExpectOperator(",");
      is_tuple = true;
    }
    indices.push_back(ParseSubscribed());
  }
  ExpectOperator("]");
  ExpressionPtr get = Make(Expression::kGetItem, position);
  get->operands.push_back(std::move(operand));
  if (indices.size() == 1 && !is_tuple) {
    get->operands.push_back(std::move(indices[0]));
  } else {
    ExpressionPtr tuple = Make(Expression::kTuple, position);
    for (const ExpressionPtr& index : indices) {
      if (index->kind == Expression::kSlice) Fail(position, "a slice within a tuple");
    }
    tuple->operands = std::move(indices);
    get->operands.push_back(std::move(tuple));
  }
  return get;
}

ExpressionPtr Parser::ParseSubscribed() {
  const Position position = Peek().position;
  ExpressionPtr start;
  if (!AtOperator(":")) {
    start = ParseExpression();
    if (!AtOperator(":")) return start;
  }
  ExpressionPtr slice = Make(Expression::kSlice, position);
  slice->operands.push_back(std::move(start));
  const auto bound = [&]() -> ExpressionPtr {
    if (!AcceptOperator(":")) return nullptr;
    if (AtOperator(":") || AtOperator("]") || AtOperator(",")) return nullptr;
    return ParseExpression();
  };
  slice->operands.push_back(bound());
  slice->operands.push_back(bound());
  return slice;
}

void Parser::ParseArguments(CallArguments& arguments) {
  const Position position = Peek().position;
  ExpectOperator("(");
  bool first = true;
  const auto ensure = [&](bool holds) {
    if (!holds) Fail(position, "these arguments are out of order");
  };
  while (ok() && !AtOperator(")")) {
    if (!std::exchange(first, false)) {
      ExpectOperator(",");
      if (AtOperator(")")) break;
    }
    if (AcceptOperator("*")) {
      ensure(!arguments.star && !arguments.double_star);
      arguments.star = ParseExpression();
    } else if (AcceptOperator("**")) {
      ensure(!arguments.double_star);
      arguments.double_star = ParseExpression();
    } else if (Peek().kind == Token::kName && Peek(1).Is(Token::kOperator, "=")) {
      ensure(!arguments.double_star);
      std::string name = ExpectAnyName();
      ++at_;
      arguments.named.emplace_back(std::move(name), ParseExpression());
    } else {
      ensure(!arguments.star && !arguments.double_star && arguments.named.empty());
      arguments.positional.push_back(ParseExpression());
    }
  }
  ExpectOperator(")");
}

ExpressionPtr Parser::ParseFilter(ExpressionPtr operand) {
  ExpressionPtr filter = Make(Expression::kFilter, Peek().position);
  filter->name = ExpectAnyName();
  while (AcceptOperator(".")) filter->name += "." + ExpectAnyName();
  filter->operands.push_back(std::move(operand));
  if (AtOperator("(")) ParseArguments(filter->arguments);
  return filter;
}

ExpressionPtr Parser::ParseFilterChain(ExpressionPtr operand) {
  while (ok() && AcceptOperator("|")) operand = ParseFilter(std::move(operand));
  return operand;
}

ExpressionPtr Parser::ParseTest(ExpressionPtr operand) {
  const Position position = Peek().position;
  ++at_;  // "is"
  const bool negated = AcceptName("not");
  ExpressionPtr test = Make(Expression::kTest, position);
  test->name = ExpectAnyName();
  while (AcceptOperator(".")) test->name += "." + ExpectAnyName();
  test->operands.push_back(std::move(operand));
  const Token& next = Peek();
  if (AtOperator("(")) {
    ParseArguments(test->arguments);
  } else if (next.kind == Token::kString || next.kind == Token::kInteger ||
             next.kind == Token::kFloat || AtOperator("[") || AtOperator("{") ||
             (next.kind == Token::kName && !IsOneOf(next.text, {"else", "or", "and"}))) {
    if (AtName("is")) Fail(next.position, "tests cannot be chained");
    test->arguments.positional.push_back(ParsePostfix(ParsePrimary()));
  }
  if (!negated) return test;
  ExpressionPtr negation = Make(Expression::kNot, position);
  negation->operands.push_back(std::move(test));
  return negation;
}

}  // namespace hydrant::engine::chat
