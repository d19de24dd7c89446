#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/chat/chat.h"

namespace hydrant::engine::chat {
namespace {

Conversation ConversationOf(const nlohmann::json& example) {
  Conversation conversation;
  for (const auto& message : example["messages"]) {
    conversation.messages.push_back({message["role"], message["content"]});
  }
  conversation.add_generation_prompt = example["add_generation_prompt"];
  return conversation;
}

// tests/data/chat_templates.json was rendered by Jinja with Hugging Face's settings.
TEST(ChatTemplateTest, RendersAsJinja) {
  std::ifstream file(HYDRANT_TEST_DATA "/chat_templates.json");
  const auto examples = nlohmann::json::parse(file);
  ASSERT_GT(examples.size(), 20u);
  for (const auto& example : examples) {
    const auto chat = Template::Parse(example["template"]);
    ASSERT_TRUE(chat.ok()) << chat.status() << example["template"];
    const auto rendered = chat->Render(ConversationOf(example));
    ASSERT_TRUE(rendered.ok()) << rendered.status();
    EXPECT_EQ(*rendered, example["rendered"]) << example["template"];
  }
}

TEST(ChatTemplateTest, RendersTheGoldenChats) {
  for (const std::string name : {"llama-gqa", "llama3-rope", "llama-spm-bf16"}) {
    std::ifstream file(HYDRANT_TEST_DATA "/golden/" + name + "/chat_template.jinja");
    const auto chat = Template::Parse({std::istreambuf_iterator<char>(file), {}});
    ASSERT_TRUE(chat.ok()) << chat.status();
    const auto rendered = chat->Render({{{"user", "Hi there"}}, true});
    ASSERT_TRUE(rendered.ok()) << rendered.status();
    EXPECT_EQ(*rendered, "<s>user\nHi there</s>\n<s>assistant\n");
  }
}

TEST(ChatTemplateTest, ADefaultSystemMessageComesFromTheTemplate) {
  const auto chat = Template::Parse(
      "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
      "{{ '<|im_start|>system\\nYou are Q.<|im_end|>\\n' }}{% endif %}"
      "{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n'}}"
      "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}");
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(*chat->Render({{{"user", "Hi"}}, true}),
            "<|im_start|>system\nYou are Q.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
            "<|im_start|>assistant\n");
  EXPECT_EQ(*chat->Render({{{"system", "S"}, {"user", "Hi"}}, false}),
            "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n");
}

TEST(ChatTemplateTest, RefusesConversationsThatNoTemplateCanRender) {
  const auto chat = Template::Parse("{% for m in messages %}{{ m.content }}{% endfor %}");
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(chat->Render({{}, true}).status().code(), absl::StatusCode::kInvalidArgument);
  const auto nameless = chat->Render({{{"user", "a"}, {"", "b"}}, true}).status();
  EXPECT_EQ(nameless.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(nameless.message(), "messages[1].role: is empty");
}

nlohmann::ordered_json ReadOrdered(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  return nlohmann::ordered_json::parse(file);
}

// tests/data/chat/make_templates.py wrote what transformers renders.
TEST(ChatTemplateTest, RendersTemplatesInUseAsTransformers) {
  const auto data = ReadOrdered(HYDRANT_TEST_DATA "/chat/templates.json");
  TokenNames names;
  for (const auto& [name, text] : data["tokens"].items()) names.emplace_back(name, text);
  ASSERT_GE(data["templates"].size(), 25u);
  for (const auto& entry : data["templates"]) {
    const auto chat = Template::Parse(entry["template"], names);
    ASSERT_TRUE(chat.ok()) << entry["name"] << chat.status();
    for (const auto& example : entry["cases"]) {
      Conversation conversation;
      conversation.variables = example["variables"].dump();
      const auto rendered = chat->Render(conversation);
      EXPECT_EQ(rendered.ok(), !example["rendered"].is_null())
          << entry["name"] << rendered.status();
      if (rendered.ok() && !example["rendered"].is_null()) {
        EXPECT_EQ(*rendered, example["rendered"].get<std::string>()) << entry["name"];
      }
    }
  }
}

absl::StatusOr<std::string> Rendered(const std::string& source, const std::string& variables = "") {
  const auto chat = Template::Parse(source);
  if (!chat.ok()) return chat.status();
  return chat->Render({{{"user", "Hi"}}, true, variables});
}

// Small expressions against Jinja: tests/data/chat/make_expressions.py.
TEST(ChatTemplateTest, EvaluatesExpressionsAsJinja) {
  const auto data = ReadOrdered(HYDRANT_TEST_DATA "/chat/expressions.json");
  const std::string variables = data["variables"].dump();
  ASSERT_GT(data["cases"].size(), 300u);
  for (const auto& example : data["cases"]) {
    const auto rendered = Rendered(example["template"], variables);
    EXPECT_TRUE(rendered.ok()) << example["template"] << rendered.status();
    if (rendered.ok()) {
      EXPECT_EQ(*rendered, example["rendered"].get<std::string>()) << example["template"];
    }
  }
}

// What the filters safe and escape make is markup: texts that meet it are escaped. Rendered by
// jinja2 with transformers' settings.
TEST(ChatTemplateTest, MarkupEscapesWhatItMeets) {
  struct Case {
    const char* source;
    const char* rendered;
  };
  const Case cases[] = {
      {R"t({{ q|safe + q }})t", R"t(<b> & 'c' "d"&lt;b&gt; &amp; &#39;c&#39; &#34;d&#34;)t"},
      {R"t({{ q + q|safe }})t", R"t(&lt;b&gt; &amp; &#39;c&#39; &#34;d&#34;<b> & 'c' "d")t"},
      {R"t({{ "'"|safe + q + "<" }})t", R"t('&lt;b&gt; &amp; &#39;c&#39; &#34;d&#34;&lt;)t"},
      {R"t({{ (q|safe + 1|string)|upper }})t", R"t(<B> & 'C' "D"1)t"},
      {R"t({{ q|e }})t", R"t(&lt;b&gt; &amp; &#39;c&#39; &#34;d&#34;)t"},
      {R"t({{ q|e|e }})t", R"t(&lt;b&gt; &amp; &#39;c&#39; &#34;d&#34;)t"},
      {R"t({{ q|e|forceescape }})t",
       R"t(&amp;lt;b&amp;gt; &amp;amp; &amp;#39;c&amp;#39; &amp;#34;d&amp;#34;)t"},
      {R"t({{ q|forceescape }})t", R"t(&lt;b&gt; &amp; &#39;c&#39; &#34;d&#34;)t"},
      {R"t({{ q|safe ~ q }})t", R"t(<b> & 'c' "d"<b> & 'c' "d")t"},
      {R"t({{ (q|safe)[:5] + "<" }})t", R"t(<b> &&lt;)t"},
      {R"t({{ (q|safe)[0] + "<" }})t", R"t(<&lt;)t"},
      {R"t({{ (q|safe)|reverse + "<" }})t", R"t("d" 'c' & >b<&lt;)t"},
      {R"t({{ ("<%s|%d|%5.1f>"|safe) % (q, 3, 2.5) }})t",
       R"t(<&lt;b&gt; &amp; &#39;c&#39; &#34;d&#34;|3|  2.5>)t"},
      {R"t({{ ("<%s>"|safe) % q }})t", R"t(<&lt;b&gt; &amp; &#39;c&#39; &#34;d&#34;>)t"},
      {R"t({{ ("<%(k)s>"|safe) % d }})t", R"t(<&lt;v&gt;>)t"},
      {R"t({{ ("<%s>"|safe)|format(q) }})t", R"t(<&lt;b&gt; &amp; &#39;c&#39; &#34;d&#34;>)t"},
      {R"t({{ ("<{}{x}>"|safe).format(q, x="&") }})t",
       R"t(<&lt;b&gt; &amp; &#39;c&#39; &#34;d&#34;&amp;>)t"},
      {R"t({{ ("<{k}>"|safe).format_map(d) }})t", R"t(<&lt;v&gt;>)t"},
      {R"t({{ (", "|safe).join(l[:2]) }})t", R"t(&lt;, &gt;)t"},
      {R"t({{ (q|safe).replace("b", "<") }})t", R"t(<&lt;> & 'c' "d")t"},
      {R"t({{ (q|safe)|replace("b", "<") + "<" }})t", R"t(<<> & 'c' "d"<)t"},
      {R"t({{ (q|safe).split(" ")[0] + "<" }})t", R"t(<b>&lt;)t"},
      {R"t({{ (q|safe).split(" ") }})t",
       R"t([Markup('<b>'), Markup('&'), Markup("'c'"), Markup('"d"')])t"},
      {R"t({{ (q|safe).partition("&")[2] + "<" }})t", R"t( 'c' "d"&lt;)t"},
      {R"t({{ (q|safe).strip() + "<" }})t", R"t(<b> & 'c' "d"&lt;)t"},
      {R"t({{ (q|safe)|trim + "<" }})t", R"t(<b> & 'c' "d"&lt;)t"},
      {R"t({{ (q|safe)|upper + "<" }})t", R"t(<B> & 'C' "D"&lt;)t"},
      {R"t({{ (q|safe)|capitalize + "<" }})t", R"t(<b> & 'c' "d"&lt;)t"},
      {R"t({{ (q|safe)|title + "<" }})t", R"t(<B> & 'c' "d"<)t"},
      {R"t({{ (q|safe)|center(30) + "<" }})t", R"t(        <b> & 'c' "d"         &lt;)t"},
      {R"t({{ (q|safe)|indent(2, true) + "<" }})t", R"t(  <b> & 'c' "d"&lt;)t"},
      {R"t({{ ("a\nb"|safe)|indent("<") }})t", R"t(a
<b)t"},
      {R"t({{ (q|safe)|truncate(8, true, "<>", 0) }})t", R"t(<b> & &lt;&gt;)t"},
      {R"t({{ (q|safe)|string + "<" }})t", R"t(<b> & 'c' "d"&lt;)t"},
      {R"t({{ (q|safe)|join("<") }})t", R"t(<<b<>< <&< <'<c<'< <"<d<")t"},
      {R"t({{ [q|safe, q]|join(", ") + "<" }})t", R"t(<b> & 'c' "d", <b> & 'c' "d"<)t"},
      {R"t({{ (q|safe)|first + "<" }})t", R"t(<<)t"},
      {R"t({{ q|safe is escaped }})t", R"t(True)t"},
      {R"t({{ q is escaped }})t", R"t(False)t"},
      {R"t({{ q|e is escaped }})t", R"t(True)t"},
      {R"t({{ (q|safe)|upper is escaped }})t", R"t(True)t"},
      {R"t({{ (q|safe) * 2 + "<" }})t", R"t(<b> & 'c' "d"<b> & 'c' "d"&lt;)t"},
      {R"t({{ 2 * (q|safe) + "<" }})t", R"t(<b> & 'c' "d"<b> & 'c' "d"&lt;)t"},
      {R"t({{ q|safe == q }})t", R"t(True)t"},
      {R"t({{ [q|safe] }})t", R"t([Markup('<b> & \'c\' "d"')])t"},
      {R"t({{ (q|safe)|tojson }})t", R"t("<b> & 'c' \"d\"")t"},
      {R"t({{ (q|safe)|length }})t", R"t(13)t"},
      {R"t({{ {"a": 1}[("a"|safe)] }})t", R"t(1)t"},
      {R"t({{ (none|safe) + "<" }})t", R"t(None&lt;)t"},
      {R"t({{ (3|e) + "<" }})t", R"t(3&lt;)t"},
      {R"t({{ (l|safe) + "<" }})t", R"t(['<', '>', 1]&lt;)t"},
      {R"t({{ (q|safe)|default("x") + "<" }})t", R"t(<b> & 'c' "d"&lt;)t"},
      {R"t({{ ("x"|safe).startswith("x") }})t", R"t(True)t"},
      {R"t({{ (q|safe in q) }})t", R"t(True)t"},
      {R"t({{ (q|safe)|list|join }})t", R"t(<b> & 'c' "d")t"},
      {R"t({{ ("a<"|safe).zfill(5) + "<" }})t", R"t(000a<&lt;)t"},
      {R"t({{ ("a<"|safe).removeprefix("a") + "<" }})t", R"t(<&lt;)t"},
      {R"t({{ "<" + ("a"|safe)|e }})t", R"t(&lt;a)t"},
      {R"t({% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(q|safe) + "<" }})t",
       R"t(<<b> & 'c' "d"><)t"},
      {R"t({% set x %}<{{ q }}>{% endset %}{{ x + "<" }})t", R"t(<<b> & 'c' "d"><)t"},
      {R"t({% set x = q|safe %}{% for c in x %}{{ c + "<" }}{% endfor %})t",
       R"t(<<b<>< <&< <'<c<'< <"<d<"<)t"},
      {R"t({% filter safe %}<b>{% endfilter %})t", R"t(<b>)t"},
      {R"t({% set ns = namespace(t="<"|safe) %}{% set ns.t = ns.t + q %}{{ ns.t }})t",
       R"t(<&lt;b&gt; &amp; &#39;c&#39; &#34;d&#34;)t"},
  };
  for (const Case& c : cases) {
    const auto rendered =
        Rendered(c.source, R"t({"q": "<b> & 'c' \"d\"", "l": ["<", ">", 1], "d": {"k": "<v>"}})t");
    ASSERT_TRUE(rendered.ok()) << c.source << rendered.status();
    EXPECT_EQ(*rendered, c.rendered) << c.source;
  }
}

struct Failing {
  const char* source;
  const char* said;  // in the message
};
class FailingTemplate : public testing::TestWithParam<Failing> {};

TEST_P(FailingTemplate, SaysWhereAndWhy) {
  const auto status = Rendered(GetParam().source).status();
  EXPECT_FALSE(status.ok()) << GetParam().source;
  EXPECT_NE(status.message().find(GetParam().said), absl::string_view::npos) << status;
}

INSTANTIATE_TEST_SUITE_P(
    All, FailingTemplate,
    testing::Values(
        Failing{"a\n  {% if x %}", "line 2, column 13: the template ends before 'endif'"},
        Failing{"{% endif %}", "line 1, column 4: unknown tag 'endif'"},
        Failing{"é{% nope %}", "line 1, column 5: unknown tag 'nope'"},
        Failing{"{{ 'never closed", "line 1, column 4: a string that does not end"},
        Failing{"{{ 'closed' ", "line 1, column 13: a tag that does not end"},
        Failing{"{# never closed", "line 1, column 3: a comment that does not end"},
        Failing{"{{ (1 }}", "unexpected '}'"}, Failing{"{{ 1 + }}", "expected an expression"},
        Failing{"{% for x messages %}{% endfor %}", "expected 'in'"},
        Failing{"{% set 1 = 2 %}", "cannot be assigned to"},
        Failing{"{% include 'x' %}", "'include' is not supported"},
        Failing{"\n{{ x | nope }}", "line 2, column 8: the filter 'nope' is not supported"},
        Failing{"{{ x is nope }}", "the test 'nope' is not supported"},
        Failing{"{{ raise_exception('not so') }}", "line 1, column 19: not so"},
        Failing{"{{ nothing.more }}", "'nothing' is undefined"},
        Failing{"{{ messages[0].nothing.more }}", "'dict object' has no attribute 'nothing'"},
        Failing{"{{ messages.append(1) }}", "is unsafe"},
        Failing{"{{ ''.__class__.__mro__ }}", "is unsafe"},
        Failing{"{{ 1 / 0 }}", "division by zero"}, Failing{"{{ 2 ** 64 }}", "64 bits"},
        Failing{"{{ 'a' + 1 }}", "'+' between str and int"},
        Failing{"{{ 99999999999999999999 }}", "64 bits"},
        Failing{"{% break %}", "outside of a loop"},
        Failing{"{% set ns = namespace(__a=1) %}", "underscore"},
        Failing{"{{ '%s' | tojson(1, 2, 3) }}", "not iterable"}));

// Each of these would run, or grow, for ever or nearly so.
class GreedyTemplate : public testing::TestWithParam<const char*> {};

TEST_P(GreedyTemplate, IsStopped) {
  const auto status = Rendered(GetParam()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << GetParam() << status;
}

INSTANTIATE_TEST_SUITE_P(
    All, GreedyTemplate,
    testing::Values(
        "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}",
        "{{ range(1000000) }}", "{{ 'a' * 10000000000 }}", "{{ [1] * 10000000000 }}",
        "{{ 'a'.center(1000000000) }}", "{{ '%1000000000d' % 1 }}",
        "{{ '{:1000000000}'.format(1) }}", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% set ns = namespace(s='aaaaaaaaaaaaaaaa') %}{% for i in range(64) %}"
        "{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
        "{% set ns = namespace(l=[]) %}{% for i in range(9000) %}{% set ns.l = [ns.l] %}{% endfor "
        "%}"
        "{{ ns.l }}",
        "{% set ns = namespace(s='a') %}{% for i in range(64) %}{% set ns.s = ns.s.replace('a', "
        "'aa') "
        "%}{% endfor %}",
        "{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}"));

TEST(ChatTemplateTest, NamespacesThatHoldThemselvesAreLetGo) {
  EXPECT_EQ(*Rendered("{% set a = namespace() %}{% set b = namespace(a=a) %}{% set a.b = b %}"
                      "{{ a.b.a.b is defined }}"),
            "True");
}

TEST(ChatTemplateTest, DeepNestingIsRefusedNotFollowed) {
  for (const std::string unit : {"(", "[", "not ", "-", "{'a': ", "x if ", "a["}) {
    std::string source = "{{ ";
    for (int i = 0; i < 100'000; ++i) source += unit;
    EXPECT_FALSE(Template::Parse(source).ok()) << unit;
  }
  std::string source;
  for (int i = 0; i < 10'000; ++i) source += "{% if add_generation_prompt %}";
  EXPECT_FALSE(Template::Parse(source).ok());
  // A chain is no nesting to the parser, but it is to the evaluation.
  source = "{{ 1";
  for (int i = 0; i < 100'000; ++i) source += " + 1";
  EXPECT_FALSE(Rendered(source + " }}").ok());
}

TEST(ChatTemplateTest, KnowsTheTimeAndThatToolsMayBeAbsent) {
  const auto year = Rendered("{{ strftime_now('%Y') }}");
  ASSERT_TRUE(year.ok()) << year.status();
  EXPECT_GE(std::stoi(*year), 2024);
  EXPECT_EQ(*Rendered("{{ tools is none }} {{ documents is none }} {{ x is defined }}"),
            "True True False");
  EXPECT_EQ(*Rendered("{{ tools[0].n }}", R"({"tools": [{"n": 1}]})"), "1");
  EXPECT_FALSE(Rendered("x", "[1]").ok());
  EXPECT_FALSE(Rendered("x", R"({"messages": 3})").ok());
}

TEST(ChatTemplateTest, BrokenUtf8IsRepairedInContentsAndRefusedInTemplates) {
  const auto chat = Template::Parse("{{ messages[0].content | upper }}");
  EXPECT_EQ(*chat->Render({{{"user", "a\xff"}}, true, ""}), "A\xEF\xBF\xBD");
  EXPECT_FALSE(Template::Parse("\xff").ok());
}

}  // namespace
}  // namespace hydrant::engine::chat
