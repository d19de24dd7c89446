// A parsed chat template: Jinja's syntax tree.

#ifndef HYDRANT_ENGINE_CHAT_PROGRAM_H_
#define HYDRANT_ENGINE_CHAT_PROGRAM_H_

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/chat/lexer.h"
#include "engine/chat/value.h"

namespace hydrant::engine::chat {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr star, double_star;  // null: none
};

struct Expression {
  Expression() = default;
  ~Expression();  // a chain of any length ends without recursion

  enum Kind {
    kConstant,
    kName,
    kTuple,
    kList,
    kDict,     // operands: key, value, key, value …
    kGetAttr,  // operands[0].name
    kGetItem,  // operands[0][operands[1]]
    kSlice,    // [start:stop:step], each may be null; only as operands[1] of kGetItem
    kCall,     // operands[0](arguments)
    kFilter,   // operands[0] | name(arguments); operands[0] is null in blocks
    kTest,     // operands[0] is name(arguments)
    kNot,
    kNegative,
    kPositive,
    kAnd,
    kOr,
    kConditional,  // operands[1] if operands[0] else operands[2], which may be null
    kCompare,      // operands, with operators between them
    kBinary,       // operands[0] name operands[1]
    kConcat,
    kNamespaceAttribute,  // name.attribute, to be set
  };
  Kind kind = kConstant;
  Position position;
  Value constant;
  std::string name;       // also the operator
  std::string attribute;  // of kNamespaceAttribute
  std::vector<ExpressionPtr> operands;
  std::vector<std::string> operators;
  CallArguments arguments;
};

struct Statement;
using Body = std::vector<std::unique_ptr<Statement>>;

// What a macro or a call block takes.
struct Signature {
  struct Parameter {
    std::string name;
    ExpressionPtr default_value;  // null: none
  };
  std::vector<Parameter> parameters;
  // Whether the body mentions these names.
  bool uses_varargs = false, uses_kwargs = false, uses_caller = false;
};

struct Statement {
  enum Kind {
    kText,
    kOutput,       // expressions
    kIf,           // branches; expressions[i] is the condition of bodies[i], null for "else"
    kFor,          // target in expressions[0] if expressions[1]; bodies: the loop's and the else's
    kSet,          // target = expressions[0]
    kSetBlock,     // target = bodies[0], through the filters expressions[0] if not null
    kMacro,        // name, signature, bodies[0]
    kCallBlock,    // expressions[0] is the call; signature and bodies[0] are the caller
    kFilterBlock,  // bodies[0] through expressions[0]
    kWith,         // targets and expressions, bodies[0]
    kScope,        // bodies[0], with names of its own
    kBreak,
    kContinue,
  };
  Kind kind = kText;
  Position position;
  std::string text;  // also the macro's name
  ExpressionPtr target;
  std::vector<ExpressionPtr> targets;
  std::vector<ExpressionPtr> expressions;
  std::vector<Body> bodies;
  Signature signature;
  bool recursive = false;  // of kFor
};

struct Program {
  Body body;

  // INVALID_ARGUMENT: the template is malformed; UNIMPLEMENTED: it includes or extends others.
  static absl::StatusOr<Program> Parse(std::string_view source);
};

}  // namespace hydrant::engine::chat

#endif  // HYDRANT_ENGINE_CHAT_PROGRAM_H_
