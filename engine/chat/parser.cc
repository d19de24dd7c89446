#include "engine/chat/parser.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/tokenizer/utf8.h"

namespace hydrant::engine::chat {
namespace {

// Far above every template in use; the recursion ends before the stack does.
constexpr int kMaxBlockDepth = 100;

}  // namespace

Expression::~Expression() {
  std::vector<ExpressionPtr> pending;
  const auto take = [&](Expression& expression) {
    const auto move = [&](ExpressionPtr& child) {
      if (child) pending.push_back(std::move(child));
    };
    for (ExpressionPtr& operand : expression.operands) move(operand);
    for (ExpressionPtr& argument : expression.arguments.positional) move(argument);
    for (auto& [name, argument] : expression.arguments.named) move(argument);
    move(expression.arguments.star);
    move(expression.arguments.double_star);
  };
  take(*this);
  while (!pending.empty()) {
    const ExpressionPtr expression = std::move(pending.back());
    pending.pop_back();
    take(*expression);
  }
}

absl::StatusOr<Program> Program::Parse(std::string_view source) {
  if (!IsValidUtf8(source)) return absl::InvalidArgumentError("chat template: not UTF-8");
  absl::StatusOr<std::vector<Token>> tokens = Tokenize(source);
  if (!tokens.ok()) return tokens.status();
  return Parser(*std::move(tokens)).Run();
}

absl::StatusOr<Program> Parser::Run() {
  Program program;
  program.body = ParseBody({});
  if (!ok()) return status_;
  return program;
}

const Token& Parser::Peek(size_t ahead) const {
  return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
}

bool Parser::AcceptName(std::string_view name) {
  if (!AtName(name)) return false;
  ++at_;
  return true;
}

bool Parser::AcceptOperator(std::string_view text) {
  if (!AtOperator(text)) return false;
  ++at_;
  return true;
}

void Parser::ExpectName(std::string_view name) {
  if (!AcceptName(name)) Unexpected(absl::StrCat("'", std::string(name), "'"));
}

void Parser::ExpectOperator(std::string_view text) {
  if (!AcceptOperator(text)) Unexpected(absl::StrCat("'", std::string(text), "'"));
}

void Parser::ExpectKind(Token::Kind kind, std::string_view what) {
  if (Peek().kind == kind) {
    ++at_;
  } else {
    Unexpected(what);
  }
}

std::string Parser::ExpectAnyName() {
  std::string name = Peek().text;
  ExpectKind(Token::kName, "a name");
  return name;
}

void Parser::Fail(Position position, std::string_view what, absl::StatusCode code) {
  if (ok()) status_ = ErrorAt(code, position, what);
}

void Parser::Unexpected(std::string_view wanted) {
  const Token& token = Peek();
  std::string found;
  switch (token.kind) {
    case Token::kText:
      found = "text";
      break;
    case Token::kBlockBegin:
    case Token::kOutputBegin:
      found = "the beginning of a tag";
      break;
    case Token::kBlockEnd:
    case Token::kOutputEnd:
      found = "the end of the tag";
      break;
    case Token::kEnd:
      found = "the end of the template";
      break;
    default:
      found = absl::StrCat("'", token.text, "'");
  }
  Fail(token.position, absl::StrCat("expected ", absl::string_view(wanted.data(), wanted.size()),
                                    ", found ", found));
}

std::unique_ptr<Statement> Parser::Make(Statement::Kind kind) const {
  auto statement = std::make_unique<Statement>();
  statement->kind = kind;
  statement->position = Peek().position;
  return statement;
}

Body Parser::ParseBody(std::initializer_list<std::string_view> ends) {
  Body body;
  if (++depth_ > kMaxBlockDepth) Fail(Peek().position, "blocks are nested too deeply");
  while (ok() && Peek().kind != Token::kEnd) {
    if (Peek().kind == Token::kText) {
      auto text = Make(Statement::kText);
      text->text = tokens_[at_++].text;
      body.push_back(std::move(text));
    } else if (Peek().kind == Token::kOutputBegin) {
      auto output = Make(Statement::kOutput);
      ++at_;
      output->expressions.push_back(ParseTuple(true, false, TupleEnd::kAnywhere));
      ExpectKind(Token::kOutputEnd, "'}}'");
      body.push_back(std::move(output));
    } else {
      const Token& name = Peek(1);
      if (name.kind == Token::kName &&
          std::find(ends.begin(), ends.end(), name.text) != ends.end()) {
        break;
      }
      ++at_;
      body.push_back(ParseStatement());
      ExpectKind(Token::kBlockEnd, "'%}'");
    }
  }
  if (ok() && Peek().kind == Token::kEnd && ends.size() > 0) {
    Fail(Peek().position,
         absl::StrCat("the template ends before '", std::string(*(ends.end() - 1)), "'"));
  }
  --depth_;
  return body;
}

Body Parser::ParseBlock(std::string_view end) {
  AcceptOperator(":");
  ExpectKind(Token::kBlockEnd, "'%}'");
  Body body = ParseBody({end});
  if (ok()) at_ += 2;  // "{%" and the name
  return body;
}

std::unique_ptr<Statement> Parser::ParseStatement() {
  const Token& token = Peek();
  if (token.kind != Token::kName) {
    Unexpected("a statement");
    return Make(Statement::kText);
  }
  const std::string& name = token.text;
  if (name == "if") return ParseIf();
  if (name == "for") return ParseFor();
  if (name == "set") return ParseSet();
  if (name == "macro") return ParseMacro();
  if (name == "call") return ParseCallBlock();
  if (name == "with") return ParseWith();
  auto statement = Make(Statement::kScope);
  ++at_;
  if (name == "generation") {
    statement->bodies.push_back(ParseBlock("endgeneration"));
  } else if (name == "filter") {
    statement->kind = Statement::kFilterBlock;
    statement->expressions.push_back(ParseFilterChain(ParseFilter(nullptr)));
    statement->bodies.push_back(ParseBlock("endfilter"));
  } else if (name == "print") {
    statement->kind = Statement::kOutput;
    while (ok() && Peek().kind != Token::kBlockEnd) {
      if (!statement->expressions.empty()) ExpectOperator(",");
      statement->expressions.push_back(ParseExpression());
    }
  } else if (name == "break") {
    statement->kind = Statement::kBreak;
  } else if (name == "continue") {
    statement->kind = Statement::kContinue;
  } else if (name == "include" || name == "import" || name == "from" || name == "extends" ||
             name == "block" || name == "autoescape") {
    Fail(token.position, absl::StrCat("the statement '", name, "' is not supported"),
         absl::StatusCode::kUnimplemented);
  } else {
    Fail(token.position, absl::StrCat("unknown tag '", name, "'"));
  }
  return statement;
}

std::unique_ptr<Statement> Parser::ParseIf() {
  auto statement = Make(Statement::kIf);
  while (ok() && (AcceptName("if") || AcceptName("elif"))) {
    statement->expressions.push_back(ParseTuple(false, false, TupleEnd::kAnywhere));
    AcceptOperator(":");
    ExpectKind(Token::kBlockEnd, "'%}'");
    statement->bodies.push_back(ParseBody({"elif", "else", "endif"}));
    ++at_;  // "{%"
  }
  if (ok() && AcceptName("else")) {
    statement->expressions.push_back(nullptr);
    statement->bodies.push_back(ParseBlock("endif"));
  } else {
    ExpectName("endif");
  }
  return statement;
}

std::unique_ptr<Statement> Parser::ParseFor() {
  auto statement = Make(Statement::kFor);
  ++at_;
  statement->target = ParseTarget(/*with_namespace=*/false, TupleEnd::kIn);
  ExpectName("in");
  statement->expressions.push_back(ParseTuple(false, false, TupleEnd::kRecursive));
  statement->expressions.push_back(AcceptName("if") ? ParseExpression() : nullptr);
  statement->recursive = AcceptName("recursive");
  AcceptOperator(":");
  ExpectKind(Token::kBlockEnd, "'%}'");
  statement->bodies.push_back(ParseBody({"else", "endfor"}));
  if (!ok()) return statement;
  ++at_;  // "{%"
  if (AcceptName("else")) {
    statement->bodies.push_back(ParseBlock("endfor"));
  } else {
    ExpectName("endfor");
    statement->bodies.emplace_back();
  }
  return statement;
}

std::unique_ptr<Statement> Parser::ParseSet() {
  auto statement = Make(Statement::kSet);
  ++at_;
  statement->target = ParseTarget(/*with_namespace=*/true, TupleEnd::kAnywhere);
  if (AcceptOperator("=")) {
    statement->expressions.push_back(ParseTuple(true, false, TupleEnd::kAnywhere));
    return statement;
  }
  statement->kind = Statement::kSetBlock;
  statement->expressions.push_back(ParseFilterChain(nullptr));
  statement->bodies.push_back(ParseBlock("endset"));
  return statement;
}

void Parser::ParseSignature(Signature& signature) {
  ExpectOperator("(");
  while (ok() && !AtOperator(")")) {
    if (!signature.parameters.empty()) ExpectOperator(",");
    const Position position = Peek().position;
    Signature::Parameter parameter{ExpectAnyName(), nullptr};
    if (AcceptOperator("=")) {
      parameter.default_value = ParseExpression();
    } else if (!signature.parameters.empty() && signature.parameters.back().default_value) {
      Fail(position, "a parameter without a default follows one with a default");
    }
    signature.parameters.push_back(std::move(parameter));
  }
  ExpectOperator(")");
}

void Parser::ParseSignedBody(Statement& statement, std::string_view end) {
  macros_.push_back(&statement.signature);
  statement.bodies.push_back(ParseBlock(end));
  macros_.pop_back();
}

std::unique_ptr<Statement> Parser::ParseMacro() {
  auto statement = Make(Statement::kMacro);
  ++at_;
  statement->text = ExpectAnyName();
  ParseSignature(statement->signature);
  ParseSignedBody(*statement, "endmacro");
  return statement;
}

std::unique_ptr<Statement> Parser::ParseCallBlock() {
  auto statement = Make(Statement::kCallBlock);
  ++at_;
  if (AtOperator("(")) ParseSignature(statement->signature);
  const Position position = Peek().position;
  statement->expressions.push_back(ParseExpression());
  if (statement->expressions[0]->kind != Expression::kCall) Fail(position, "expected a call");
  ParseSignedBody(*statement, "endcall");
  return statement;
}

std::unique_ptr<Statement> Parser::ParseWith() {
  auto statement = Make(Statement::kWith);
  ++at_;
  while (ok() && Peek().kind != Token::kBlockEnd) {
    if (!statement->targets.empty()) ExpectOperator(",");
    statement->targets.push_back(ParseTarget(/*with_namespace=*/false, TupleEnd::kAnywhere));
    ExpectOperator("=");
    statement->expressions.push_back(ParseExpression());
  }
  statement->bodies.push_back(ParseBlock("endwith"));
  return statement;
}

}  // namespace hydrant::engine::chat
