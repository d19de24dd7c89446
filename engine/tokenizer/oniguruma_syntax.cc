// Where Oniguruma (doc/RE, Ruby's syntax) and PCRE2 give one spelling two meanings.

#include <cctype>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/tokenizer/regex.h"
#include "engine/tokenizer/unicode.h"

namespace hydrant::engine {
namespace {

// What \s, \w and \h hold in Oniguruma, as the inside of a class. PCRE2's own \s has U+180E, and
// its \w has no marks.
constexpr std::string_view kSpace =
    "\\t-\\r\\x20\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}"
    "\\x{3000}";
constexpr std::string_view kNotSpace = "\\P{White_Space}";
constexpr std::string_view kHexDigit = "0-9a-fA-F";

// Characters with one of the properties, as the inside of a class.
std::string Members(std::initializer_list<const char*> properties) {
  std::string members;
  for (const char* property : properties) {
    absl::StrAppend(&members, "\\p{", property, "}", NewerMembers(property));
  }
  return members;
}

std::string Word() { return Members({"Alphabetic", "M", "Nd", "Pc"}); }
// Outside of a class \w has the other digits and fractions of Latin-1 too.
std::string WordAlone() { return absl::StrCat(Word(), "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"); }

class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  absl::StatusOr<std::string> Run() {
    while (at_ < in_.size() && status_.ok()) {
      switch (in_[at_]) {
        case '\\':
          Escape(/*in_class=*/false);
          break;
        case '[':
          Class();
          break;
        case '(':
          Group();
          break;
        case '{':
          Interval();
          break;
        default:
          out_ += in_[at_++];
      }
    }
    if (!status_.ok()) return status_;
    return std::move(out_);
  }

 private:
  void Refuse(std::string_view what) {
    if (!status_.ok()) return;
    status_ = absl::UnimplementedError(absl::StrCat(
        "regular expression '", absl::string_view(in_.data(), in_.size()),
        "': ", absl::string_view(what.data(), what.size()), " at byte ", at_, " is not supported"));
  }

  void Emit(std::string_view members, bool in_class, bool negated = false) {
    if (in_class) {
      out_ += members;
    } else {
      out_ += negated ? "[^" : "[";
      out_ += members;
      out_ += ']';
    }
  }

  void Escape(bool in_class) {
    if (at_ + 1 == in_.size()) {
      out_ += in_[at_++];  // PCRE2 says what is wrong with it
      return;
    }
    const char letter = in_[at_ + 1];
    switch (letter) {
      case 's':
        Emit(kSpace, in_class);
        break;
      case 'S':
        if (in_class) {
          out_ += kNotSpace;
        } else {
          Emit(kSpace, in_class, /*negated=*/true);
        }
        break;
      case 'w':
        Emit(in_class ? Word() : WordAlone(), in_class);
        break;
      case 'd':
        Emit(Members({"Nd"}), in_class);
        break;
      case 'D':
        out_ += absl::StrCat("[^", Members({"Nd"}), "]");
        break;
      case 'h':
        Emit(kHexDigit, in_class);
        break;
      case 'W':
      case 'H':
        if (in_class) return Refuse("\\W or \\H inside a class");
        Emit(letter == 'W' ? WordAlone() : std::string(kHexDigit), in_class, /*negated=*/true);
        break;
      case 'b':
        if (in_class) {
          out_ += "\\b";
        } else {
          out_ += absl::StrCat("(?:(?<=[", WordAlone(), "])(?![", WordAlone(), "])|(?<![",
                               WordAlone(), "])(?=[", WordAlone(), "]))");
        }
        break;
      case 'B':
        if (in_class) return Refuse("\\B inside a class");
        out_ += absl::StrCat("(?:(?<=[", WordAlone(), "])(?=[", WordAlone(), "])|(?<![",
                             WordAlone(), "])(?![", WordAlone(), "]))");
        break;
      case 'v':
        out_ += "\\x0b";
        break;
      case 'p':
      case 'P':
        return Property(in_class);
      case 'u': {
        const std::string_view digits = in_.substr(at_ + 2, 4);
        if (digits.size() < 4) return Refuse("\\u without four digits");
        for (const char digit : digits) {
          if (!std::isxdigit(static_cast<unsigned char>(digit))) {
            return Refuse("\\u without four digits");
          }
        }
        out_ += "\\x{";
        out_ += digits;
        out_ += '}';
        at_ += 6;
        return;
      }
      case 'Q':
      case 'E':
      case 'C':
      case 'O':
      case 'y':
      case 'Y':
      case 'K':
      case 'g':
        return Refuse(std::string("\\") + letter);
      default:
        out_ += in_.substr(at_, 2);
    }
    at_ += 2;
  }

  // "\p{Name}", "\p{^Name}": the name of a script is the script alone in Oniguruma, and in PCRE2
  // also what other scripts share with it, unless one says sc.
  void Property(bool in_class) {
    const size_t end = in_.find('}', at_);
    const size_t name_at = at_ + (in_.substr(at_ + 2).starts_with("{^") ? 4 : 3);
    if (end == std::string_view::npos || in_[at_ + 2] != '{' || end < name_at) {
      return Refuse("this property");
    }
    const std::string_view name = in_.substr(name_at, end - name_at);
    const bool is_script = name.size() > 2 && !IsGeneralProperty(name);
    const bool negated = (in_[at_ + 1] == 'P') != (name_at - at_ == 4);
    at_ = end + 1;
    const std::string property = absl::StrCat(is_script ? "{sc:" : "{", std::string(name), "}");
    // What is newer is no longer "other" (C, Cn).
    const bool other = name == "C" || name == "Cn";
    const std::string newer = NewerMembers(name == "C"    ? "NotOther"
                                           : name == "Cn" ? "Assigned"
                                                          : name);
    if (newer.empty()) {
      out_ += absl::StrCat(negated ? "\\P" : "\\p", property);
    } else if (negated == other) {
      Emit(absl::StrCat(other ? "\\P" : "\\p", property, newer), in_class);
    } else {
      out_ += absl::StrCat("[^", other ? "\\P" : "\\p", property, newer, "]");
    }
  }

  static bool IsGeneralProperty(std::string_view name) {
    for (const std::string_view general : {"Any", "Alphabetic", "White_Space", "Uppercase",
                                           "Lowercase", "Emoji", "Extended_Pictographic"}) {
      if (name == general) return true;
    }
    return false;
  }

  // A bracket, whose members may be brackets themselves and intersections ("[a[bc]]", "[a&&[^b]]"):
  // PCRE2 has neither, so a bracket with such members becomes a group that matches one character.
  void Class() {
    if (++depth_ > kMaxDepth) return Refuse("brackets nested so deeply");
    ++at_;  // [
    const bool negated = in_.substr(at_).starts_with('^');
    if (negated) ++at_;
    std::vector<std::string> operands;  // of "&&"
    std::string members;                // of this operand: what PCRE2 can say
    std::vector<std::string> groups;    // and what it cannot
    const auto end_operand = [&] {
      if (!members.empty()) groups.insert(groups.begin(), absl::StrCat("[", members, "]"));
      std::string all = groups.empty() ? "(?!)" : groups[0];
      for (size_t i = 1; i < groups.size(); ++i) absl::StrAppend(&all, "|", groups[i]);
      operands.push_back(groups.size() > 1 ? absl::StrCat("(?:", all, ")") : all);
      members.clear();
      groups.clear();
    };
    const size_t first = at_;
    std::string outer;
    outer.swap(out_);
    bool closed = false;
    while (at_ < in_.size() && status_.ok()) {
      const std::string_view rest = in_.substr(at_);
      if (rest[0] == ']' && at_ != first) {
        closed = true;
        ++at_;
        break;
      }
      if (rest[0] == '[' && !rest.starts_with("[:")) {
        Class();
        // "[ab]" without more is only its members.
        if (out_.starts_with('[') && !out_.starts_with("[^")) {
          members += out_.substr(1, out_.size() - 2);
        } else {
          groups.push_back(out_);
        }
      } else if (rest.starts_with("&&")) {
        end_operand();
        at_ += 2;
      } else {
        Member(rest);
        // What is said as all but others can be no member.
        if (out_.starts_with("[^")) {
          groups.push_back(out_);
        } else {
          members += out_;
        }
      }
      out_.clear();
    }
    out_.swap(outer);
    --depth_;
    if (!closed) {
      out_ += in_.substr(first - 1);  // PCRE2 says what is wrong with it
      return;
    }
    if (operands.empty() && groups.empty()) {
      absl::StrAppend(&out_, negated ? "[^" : "[", members, "]");
      return;
    }
    end_operand();
    std::string all;
    for (size_t i = 0; i + 1 < operands.size(); ++i) absl::StrAppend(&all, "(?=", operands[i], ")");
    all += operands.back();
    out_ += negated ? absl::StrCat("(?:(?!", all, ")(?s:.))") : absl::StrCat("(?:", all, ")");
  }

  // One member of a bracket, that is none itself, to out_.
  void Member(std::string_view rest) {
    if (rest[0] == '\\') return Escape(/*in_class=*/true);
    if (rest.starts_with("[:")) {
      const size_t end = rest.find(":]");
      if (end == std::string_view::npos) return Refuse("an unfinished [: in a class");
      const std::string members = PosixClass(rest.substr(2, end - 2));
      if (members.empty()) return Refuse("this bracket");
      out_ += members;
      at_ += end + 2;
      return;
    }
    out_ += in_[at_++];
  }

  static std::string PosixClass(std::string_view name) {
    if (name == "word") return Word();
    if (name == "space") return std::string(kSpace);
    if (name == "alpha") return Members({"Alphabetic"});
    if (name == "digit") return Members({"Nd"});
    if (name == "alnum") return Members({"Alphabetic", "Nd"});
    if (name == "upper") return Members({"Uppercase"});
    if (name == "lower") return Members({"Lowercase"});
    if (name == "punct") return Members({"P", "S"});
    return {};
  }

  // "(?im-x:": what Ruby calls m is PCRE2's s. Other groups are the same in both.
  void Group() {
    const size_t open = at_;
    out_ += in_[at_++];
    if (at_ + 1 >= in_.size() || in_[at_] != '?') return;
    const char kind = in_[at_ + 1];
    if (kind == '~') return Refuse("an absent operator");
    if (kind != '-' && !std::isalpha(static_cast<unsigned char>(kind))) return;
    out_ += in_[at_++];
    while (at_ < in_.size() && in_[at_] != ':' && in_[at_] != ')') {
      const char option = in_[at_];
      if (option != 'i' && option != 'm' && option != '-') return Refuse("this option");
      out_ += option == 'm' ? 's' : option;
      ++at_;
    }
    // Without a colon it reaches over alternatives in Ruby, which PCRE2 does only from the start.
    if (at_ < in_.size() && in_[at_] == ')' && open != 0) Refuse("an option in the middle");
  }

  // "{,n}" is "{0,n}", and what follows an interval as '+' repeats it instead of making it
  // possessive.
  void Interval() {
    const size_t end = in_.find('}', at_);
    if (end == std::string_view::npos ||
        in_.substr(at_ + 1, end - at_ - 1).find_first_not_of("0123456789,") !=
            std::string_view::npos) {
      out_ += in_[at_++];
      return;
    }
    if (end + 1 < in_.size() && in_[end + 1] == '+') return Refuse("a repeated interval");
    out_ += in_[at_++];
    if (in_[at_] == ',') out_ += '0';
  }

  static constexpr int kMaxDepth = 20;

  std::string_view in_;
  size_t at_ = 0;
  int depth_ = 0;
  std::string out_;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<std::string> OnigurumaToPcre2(std::string_view pattern) {
  return Translator(pattern).Run();
}

}  // namespace hydrant::engine
