// Program::Parse: recursive descent over the tokens, one function a rule of Jinja's grammar, for
// the part of it that a Program can hold.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/chat/lexer.h"
#include "engine/chat/program.h"

namespace hydrant::engine::chat {
namespace {

// Far above every template in use; the recursion ends before the stack does.
constexpr int kMaxDepth = 100;
constexpr size_t kMaxQuote = 120;  // bytes of a template in a message

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  absl::StatusOr<Program> Run() {
    Program program;
    program.nodes = Nodes();
    if (Peek().kind != Token::kEnd) Refuse();
    if (!status_.ok()) return status_;
    return program;
  }

 private:
  const Token& Peek(size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  bool Accept(Token::Kind kind, std::string_view text) {
    if (!Peek().Is(kind, text)) return false;
    ++at_;
    return true;
  }
  bool AcceptName(std::string_view name) { return Accept(Token::kName, name); }
  bool AcceptOperator(std::string_view text) { return Accept(Token::kOperator, text); }
  void ExpectOperator(std::string_view text) {
    if (!AcceptOperator(text)) Refuse();
  }
  void ExpectKind(Token::Kind kind) {
    if (Peek().kind == kind) {
      ++at_;
    } else {
      Refuse();
    }
  }

  // What stands here is not understood: quotes its tag.
  void Refuse() {
    if (!status_.ok()) return;
    const auto begins_tag = [](const Token& token) {
      return token.kind == Token::kBlockBegin || token.kind == Token::kOutputBegin;
    };
    const auto ends_tag = [](const Token& token) {
      return token.kind == Token::kBlockEnd || token.kind == Token::kOutputEnd;
    };
    const size_t here = std::min(at_, tokens_.size() - 1);
    size_t begin = here;
    while (begin > 0 && !begins_tag(tokens_[begin])) --begin;
    std::string words;
    for (size_t i = begin; i < tokens_.size() && words.size() < kMaxQuote; ++i) {
      if (i >= here && ends_tag(tokens_[i])) break;
      if (!tokens_[i].text.empty())
        absl::StrAppend(&words, words.empty() ? "" : " ", tokens_[i].text);
    }
    status_ = absl::UnimplementedError(
        absl::StrCat("chat template: '", words.substr(0, kMaxQuote),
                     "' is not understood; only templates of ChatML's shape are"));
  }

  // Statements until one that ends or continues an outer one ("endif", "elif", "else", "endfor").
  std::vector<Node> Nodes() {
    std::vector<Node> nodes;
    if (++depth_ > kMaxDepth) Refuse();
    while (status_.ok()) {
      const Token& token = Peek();
      if (token.kind == Token::kText) {
        nodes.push_back(Output({{Text::kLiteral, token.text}}));
        ++at_;
      } else if (token.kind == Token::kOutputBegin) {
        ++at_;
        nodes.push_back(Output(Concatenation()));
        ExpectKind(Token::kOutputEnd);
      } else if (token.kind == Token::kBlockBegin && Peek(1).Is(Token::kName, "if")) {
        nodes.push_back(If());
      } else if (token.kind == Token::kBlockBegin && Peek(1).Is(Token::kName, "for")) {
        nodes.push_back(For());
      } else if (token.kind == Token::kBlockBegin && Peek(1).Is(Token::kName, "set") && dead_) {
        while (Peek().kind != Token::kBlockEnd && Peek().kind != Token::kEnd) ++at_;
        ExpectKind(Token::kBlockEnd);
      } else {
        break;
      }
    }
    --depth_;
    return nodes;
  }

  static Node Output(std::vector<Text> texts) {
    Node node;
    node.output = std::move(texts);
    return node;
  }

  // "if C %}…{% elif C %}…{% else %}…{% endif": from the block's beginning to its end.
  Node If() {
    Node node;
    node.kind = Node::kIf;
    ++at_;  // {%
    while (status_.ok() && (AcceptName("if") || AcceptName("elif"))) {
      Condition condition = Or();
      ExpectKind(Token::kBlockEnd);
      const bool outer_dead = dead_;
      dead_ = dead_ || (condition.kind == Condition::kConstant && !condition.constant);
      node.branches.push_back({std::move(condition), Nodes()});
      dead_ = outer_dead;
      ExpectKind(Token::kBlockBegin);
    }
    if (AcceptName("else")) {
      ExpectKind(Token::kBlockEnd);
      node.branches.push_back({Condition(), Nodes()});
      ExpectKind(Token::kBlockBegin);
    }
    if (!AcceptName("endif")) Refuse();
    ExpectKind(Token::kBlockEnd);
    return node;
  }

  Node For() {
    Node node;
    node.kind = Node::kForEachMessage;
    at_ += 2;  // {% for
    if (!loop_variable_.empty() || Peek().kind != Token::kName || Peek().text == "messages" ||
        Peek().text == "loop" || Peek().text == "add_generation_prompt") {
      Refuse();
    }
    loop_variable_ = Peek().text;
    ++at_;
    if (!AcceptName("in") || !AcceptName("messages")) Refuse();
    ExpectKind(Token::kBlockEnd);
    node.body = Nodes();
    loop_variable_.clear();
    ExpectKind(Token::kBlockBegin);
    if (!AcceptName("endfor")) Refuse();
    ExpectKind(Token::kBlockEnd);
    return node;
  }

  // Strings joined by + or ~.
  std::vector<Text> Concatenation() {
    std::vector<Text> texts;
    do {
      if (AcceptOperator("(")) {
        const std::vector<Text> inner = Nested<std::vector<Text>>([&] { return Concatenation(); });
        texts.insert(texts.end(), inner.begin(), inner.end());
        ExpectOperator(")");
      } else {
        texts.push_back(String());
      }
    } while (status_.ok() && (AcceptOperator("+") || AcceptOperator("~")));
    return texts;
  }

  // A literal, VARIABLE['role'], VARIABLE.content, messages[0]['role'] …, maybe trimmed.
  Text String() {
    Text text;
    if (Peek().kind == Token::kString) {
      text.literal = Peek().text;
      ++at_;
    } else if (!loop_variable_.empty() && AcceptName(loop_variable_)) {
      text.kind = Member();
    } else if (Peek().Is(Token::kName, "messages") && Peek(1).Is(Token::kOperator, "[") &&
               Peek(2).Is(Token::kNumber, "0") && Peek(3).Is(Token::kOperator, "]")) {
      at_ += 4;
      text.of_first_message = true;
      text.kind = Member();
    } else {
      Refuse();
    }
    while (status_.ok() && AcceptOperator("|")) {
      if (!AcceptName("trim")) Refuse();
      text.trim = true;
    }
    return text;
  }

  Text::Kind Member() {
    const bool subscript = AcceptOperator("[");
    if (!subscript) ExpectOperator(".");
    const Token& name = Peek();
    if (name.kind != (subscript ? Token::kString : Token::kName) ||
        (name.text != "role" && name.text != "content")) {
      Refuse();
      return Text::kRole;
    }
    ++at_;
    if (subscript) ExpectOperator("]");
    return name.text == "role" ? Text::kRole : Text::kContent;
  }

  template <typename Result, typename Rule>
  Result Nested(Rule rule) {
    if (++depth_ > kMaxDepth) Refuse();
    Result result = status_.ok() ? rule() : Result();
    --depth_;
    return result;
  }

  static Condition Combine(Condition::Kind kind, std::vector<Condition> operands) {
    Condition condition;
    condition.kind = kind;
    condition.operands = std::move(operands);
    return condition;
  }
  static Condition Constant(bool value) {
    Condition condition;
    condition.constant = value;
    return condition;
  }
  static Condition Not(Condition condition) {
    if (condition.kind == Condition::kConstant) return Constant(!condition.constant);
    return Combine(Condition::kNot, {std::move(condition)});
  }

  Condition Or() {
    std::vector<Condition> operands = {And()};
    while (status_.ok() && AcceptName("or")) operands.push_back(And());
    return operands.size() == 1 ? operands[0] : Combine(Condition::kOr, std::move(operands));
  }

  Condition And() {
    std::vector<Condition> operands = {Negation()};
    while (status_.ok() && AcceptName("and")) operands.push_back(Negation());
    return operands.size() == 1 ? operands[0] : Combine(Condition::kAnd, std::move(operands));
  }

  Condition Negation() {
    if (!AcceptName("not")) return Comparison();
    return Not(Nested<Condition>([&] { return Negation(); }));
  }

  Condition Comparison() {
    Condition condition;
    if (AcceptOperator("(")) {
      condition = Nested<Condition>([&] { return Or(); });
      ExpectOperator(")");
    } else if (AcceptName("add_generation_prompt")) {
      condition.kind = Condition::kAddGenerationPrompt;
      if (AcceptName("is")) {  // it always is
        condition = Constant(!AcceptName("not"));
        if (!AcceptName("defined")) Refuse();
      }
    } else if (!loop_variable_.empty() && Peek().Is(Token::kName, "loop")) {
      ++at_;
      ExpectOperator(".");
      if (AcceptName("first")) {
        condition.kind = Condition::kLoopFirst;
      } else if (AcceptName("last")) {
        condition.kind = Condition::kLoopLast;
      } else {
        Refuse();
      }
    } else {
      condition.kind = Condition::kEqual;
      condition.compared.push_back(String());
      const bool differ = AcceptOperator("!=");
      if (!differ) ExpectOperator("==");
      condition.compared.push_back(String());
      if (differ) condition = Not(std::move(condition));
    }
    return condition;
  }

  const std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
  bool dead_ = false;          // within a branch that is never taken
  std::string loop_variable_;  // empty outside of the loop
  absl::Status status_;
};

}  // namespace

absl::StatusOr<Program> Program::Parse(std::string_view source) {
  absl::StatusOr<std::vector<Token>> tokens = Tokenize(source);
  if (!tokens.ok()) return tokens.status();
  return Parser(*std::move(tokens)).Run();
}

}  // namespace hydrant::engine::chat
