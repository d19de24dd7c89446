// Recursive descent over a template's tokens, one function a rule of Jinja's parser.py. The first
// error stays; from then on every rule returns at once, with something that is not null.

#ifndef HYDRANT_ENGINE_CHAT_PARSER_H_
#define HYDRANT_ENGINE_CHAT_PARSER_H_

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "engine/chat/lexer.h"
#include "engine/chat/program.h"

namespace hydrant::engine::chat {

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}
  absl::StatusOr<Program> Run();

 private:
  // Tokens.
  const Token& Peek(size_t ahead = 0) const;
  bool At(Token::Kind kind, std::string_view text) const { return Peek().Is(kind, text); }
  bool AtName(std::string_view name) const { return At(Token::kName, name); }
  bool AtOperator(std::string_view text) const { return At(Token::kOperator, text); }
  bool AcceptName(std::string_view name);
  bool AcceptOperator(std::string_view text);
  void ExpectName(std::string_view name);
  void ExpectOperator(std::string_view text);
  void ExpectKind(Token::Kind kind, std::string_view what);
  std::string ExpectAnyName();
  bool ok() const { return status_.ok(); }
  void Fail(Position position, std::string_view what,
            absl::StatusCode code = absl::StatusCode::kInvalidArgument);
  void Unexpected(std::string_view wanted);

  // Statements (parser.cc).
  std::unique_ptr<Statement> Make(Statement::Kind kind) const;
  // Up to the block whose name is one of `ends`, which stays; at the top, up to the end.
  Body ParseBody(std::initializer_list<std::string_view> ends);
  // From the end of a tag to after the tag `end`.
  Body ParseBlock(std::string_view end);
  std::unique_ptr<Statement> ParseStatement();
  std::unique_ptr<Statement> ParseIf();
  std::unique_ptr<Statement> ParseFor();
  std::unique_ptr<Statement> ParseSet();
  std::unique_ptr<Statement> ParseMacro();
  std::unique_ptr<Statement> ParseCallBlock();
  std::unique_ptr<Statement> ParseWith();
  void ParseSignature(Signature& signature);
  void ParseSignedBody(Statement& statement, std::string_view end);

  // Expressions (parser_expressions.cc).
  enum class TupleEnd { kAnywhere, kIn, kRecursive };
  ExpressionPtr Make(Expression::Kind kind, Position position) const;
  ExpressionPtr ParseExpression(bool conditional = true);
  ExpressionPtr ParseTuple(bool conditional, bool parenthesised, TupleEnd end);
  ExpressionPtr ParseTarget(bool with_namespace, TupleEnd end);
  bool CheckTarget(const Expression& target);
  ExpressionPtr ParseConditional();
  // Operands of `next` joined by the operator `name`, from the left.
  ExpressionPtr ParseChain(std::string_view name, Expression::Kind kind,
                           ExpressionPtr (Parser::*next)());
  ExpressionPtr ParseOr();
  ExpressionPtr ParseAnd();
  ExpressionPtr ParseNot();
  ExpressionPtr ParseCompare();
  ExpressionPtr ParseSum();
  ExpressionPtr ParseConcat();
  ExpressionPtr ParseProduct();
  ExpressionPtr ParsePower();
  ExpressionPtr ParseUnary(bool with_filter);
  ExpressionPtr ParsePrimary();
  ExpressionPtr ParseName();
  ExpressionPtr ParseListLiteral();
  ExpressionPtr ParseDictLiteral();
  ExpressionPtr ParsePostfix(ExpressionPtr operand);
  ExpressionPtr ParseFilterExpression(ExpressionPtr operand);
  ExpressionPtr ParseSubscript(ExpressionPtr operand);
  ExpressionPtr ParseSubscribed();
  // After the "|".
  ExpressionPtr ParseFilter(ExpressionPtr operand);
  ExpressionPtr ParseFilterChain(ExpressionPtr operand);
  ExpressionPtr ParseTest(ExpressionPtr operand);
  ExpressionPtr ParseBinaryChain(std::initializer_list<std::string_view> operators,
                                 ExpressionPtr (Parser::*operand)());
  void ParseArguments(CallArguments& arguments);

  const std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
  std::vector<Signature*> macros_;  // whose bodies are being read
  absl::Status status_;
};

}  // namespace hydrant::engine::chat

#endif  // HYDRANT_ENGINE_CHAT_PARSER_H_
