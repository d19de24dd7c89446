#!/usr/bin/env python3
"""Writes templates.json: chat templates built in the manners of those in use, several conversations
each, and what Hugging Face transformers renders of them (null where it raises).

Usage: make_templates.py > templates.json   (needs the Python packages transformers and jinja2)
"""

import copy
import json

from transformers.utils.chat_template_utils import render_jinja_template

TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather <now> & \"here\".",
    "parameters": {"type": "object", "properties": {
        "city": {"type": "string", "description": "Where"},
        "unit": {"type": "string", "enum": ["c", "f"]}}, "required": ["city"]}}}
CLOCK = {"type": "function", "function": {
    "name": "clock", "description": "Zeit in Zürich", "parameters": {"type": "object",
                                                                     "properties": {}}}}
DOCUMENTS = [{"title": "Öl", "text": "Oil floats."}, {"title": "B", "text": "Second\ntext."}]


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def system(text):
    return {"role": "system", "content": text}


CALL = assistant("", tool_calls=[{"id": "call00001", "type": "function", "function": {
    "name": "get_weather", "arguments": {"city": "Zürich", "unit": "c"}}}])
RESULT = {"role": "tool", "name": "get_weather", "tool_call_id": "call00001",
          "content": "{\"degrees\": 21.5}"}
PARTS = {"role": "user", "content": [{"type": "text", "text": "Look: "},
                                     {"type": "image"}, {"type": "text", "text": " what?"}]}

SIMPLE = [user("Hi there")]
TURNS = [user(" Hi\n"), assistant("Hello! "), user("How are you?\n\n")]
WITH_SYSTEM = [system("Be brief. "), *TURNS]
THOUGHTS = [system("S"), user("1+1?"), assistant("<think>\nadd\n</think>\n\n2"), user("2+2?"),
            assistant("4", reasoning_content="add\nagain\n"), user("Done?")]
TOOLS = [user("Weather?"), CALL, RESULT, assistant("21.5 degrees."), user("Thanks 🙏🏽")]
WRONG = [assistant("I begin"), user("?")]
TWO_USERS = [user("a"), user("b")]

PLAIN = [dict(messages=m, add_generation_prompt=g)
         for m, g in ((SIMPLE, True), (TURNS, True), (WITH_SYSTEM, True), (WITH_SYSTEM, False),
                      (WRONG, True), (TWO_USERS, True), (TURNS[:2], False))]
TOOLED = PLAIN[:4] + [
    dict(messages=TOOLS, tools=[WEATHER, CLOCK], add_generation_prompt=True),
    dict(messages=TOOLS[:1], tools=[WEATHER], add_generation_prompt=True),
    dict(messages=[system("Sys"), *TOOLS], tools=[CLOCK], add_generation_prompt=False),
    dict(messages=TOOLS[:3], add_generation_prompt=True)]
THINKING = TOOLED + [
    dict(messages=THOUGHTS, add_generation_prompt=True),
    dict(messages=THOUGHTS, add_generation_prompt=True, enable_thinking=False),
    dict(messages=THOUGHTS, add_generation_prompt=False, enable_thinking=True)]
DOCUMENTED = PLAIN[:4] + [
    dict(messages=WITH_SYSTEM, documents=DOCUMENTS, add_generation_prompt=True),
    dict(messages=TURNS, documents=[], add_generation_prompt=True),
    dict(messages=TURNS, documents=DOCUMENTS, citation_mode="fast", add_generation_prompt=True)]
PARTED = PLAIN[:4] + [dict(messages=[PARTS], add_generation_prompt=True),
                      dict(messages=[system("S"), PARTS, assistant("Ok"), user("And?")],
                           add_generation_prompt=True)]

TEMPLATES = {}


def template(name, cases):
    def add(function):
        TEMPLATES[name] = (function.__doc__, cases)
    return add


@template("turns in brackets, the system message folded into the first", PLAIN)
def _():
    r"""{% if messages[0]['role'] == 'system' %}{% set rest = messages[1:] %}{% set sys = messages[0]['content'] %}{% else %}{% set rest = messages %}{% set sys = false %}{% endif %}{% for m in rest %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must take turns: user, assistant, user ...') }}{% endif %}{% if loop.index0 == 0 and sys != false %}{% set text = '<<SYS>>\n' + sys + '\n<</SYS>>\n\n' + m['content'] %}{% else %}{% set text = m['content'] %}{% endif %}{% if m['role'] == 'user' %}{{ bos_token + '[INST] ' + text.strip() + ' [/INST]' }}{% elif m['role'] == 'assistant' %}{{ ' ' + text.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"""


@template("headers of role ids", PLAIN)
def _():
    r"""{% set all = messages %}{% for m in all %}{% set text = '<|start_header_id|>' + m['role'] + '<|end_header_id|>\n\n' + m['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set text = bos_token + text %}{% endif %}{{ text }}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"""


@template("headers with tools and a date", TOOLED)
def _():
    r"""{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not tools_in_user_message is defined %}
    {%- set tools_in_user_message = true %}
{%- endif %}
{%- if not date_string is defined %}
    {%- set date_string = "26 Jul 2024" %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}

{#- The system message is its own block. #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\n\n" }}
{%- if tools is not none %}
    {{- "Environment: ipython\n" }}
{%- endif %}
{{- "Today: " + date_string + "\n\n" }}
{%- if tools is not none and not tools_in_user_message %}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\n\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- if tools_in_user_message and not tools is none %}
    {%- if messages | length != 0 %}
        {%- set first = messages[0]['content'] | trim %}
        {%- set messages = messages[1:] %}
    {%- else %}
        {{- raise_exception("No user message to put tools into") }}
    {%- endif %}
    {{- '<|start_header_id|>user<|end_header_id|>\n\n' -}}
    {{- 'Answer with a JSON call of {"name": ..., "parameters": ...}.\n\n' }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\n\n" }}
    {%- endfor %}
    {{- first + "<|eot_id|>" }}
{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls | length == 1 %}
            {{- raise_exception("One call at a time") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' -}}
        {{- '{"name": "' + tool_call.name + '", ' }}
        {{- '"parameters": ' }}
        {{- tool_call.arguments | tojson }}
        {{- "}" }}
        {{- "<|eot_id|>" }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\n\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %}
"""


@template("brackets with tools before the last user turn", TOOLED)
def _():
    r"""{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or message.role == "tool_results" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("After the optional system message, roles must take turns") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS] [" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}
                        {{- '"' + key + '": "' + val + '"' }}
                    {%- else %}
                        {{- '"' + key + '": ' + val|tojson }}
                    {%- endif %}
                    {%- if not loop.last %}
                        {{- ", " }}
                    {%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}
                    {{- ", " }}
                {%- else %}
                    {{- "]" }}
                {%- endif %}
            {%- endfor %}
            {{- "[/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\n\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[TOOL_CALLS] [" }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function|tojson %}
            {{- out[:-1] }}
            {%- if not tool_call.id is defined or tool_call.id|length != 9 %}
                {{- raise_exception("Ids of calls have nine characters") }}
            {%- endif %}
            {{- ', "id": "' + tool_call.id + '"}' }}
            {%- if not loop.last %}
                {{- ", " }}
            {%- else %}
                {{- "]" + eos_token }}
            {%- endif %}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- elif message["role"] == "tool_results" or message["role"] == "tool" %}
        {%- if message.content is defined and message.content.content is defined %}
            {%- set content = message.content.content %}
        {%- else %}
            {%- set content = message.content %}
        {%- endif %}
        {{- '[TOOL_RESULTS] {"content": ' + content|string + ", " }}
        {{- '"call_id": "' + message.tool_call_id + '"}[/TOOL_RESULTS]' }}
    {%- else %}
        {{- raise_exception("Unknown role: " + message.role) }}
    {%- endif %}
{%- endfor %}
"""


@template("role tags on lines", PLAIN)
def _():
    r"""{% for message in messages %}{{'<|im_start|>' + message['role'] + '
' + message['content'] + '<|im_end|>' + '
'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant
' }}{% endif %}"""


@template("role tags with a default system line", PLAIN)
def _():
    r"""{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system
You are a helpful assistant.<|im_end|>
' }}{% endif %}{{'<|im_start|>' + message['role'] + '
' + message['content']}}{% if (loop.last and add_generation_prompt) or not loop.last %}{{ '<|im_end|>' + '
'}}{% endif %}{% endfor %}
{% if add_generation_prompt and messages[-1]['role'] != 'assistant' %}{{ '<|im_start|>assistant
' }}{% endif %}"""


@template("role tags with tools in XML", TOOLED)
def _():
    r"""{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- if messages[0]['role'] == 'system' %}
        {{- messages[0]['content'] }}
    {%- else %}
        {{- 'You are a helpful assistant.' }}
    {%- endif %}
    {{- "\n\n# Tools\n\nSignatures are within <tools></tools>:\n<tools>" }}
    {%- for tool in tools %}
        {{- "\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\n</tools>\n\nAnswer with\n<tool_call>\n{\"name\": <name>, \"arguments\": <object>}\n</tool_call><|im_end|>\n" }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\n' + messages[0]['content'] + '<|im_end|>\n' }}
    {%- else %}
        {{- '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content %}
            {{- '\n' + message.content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}
                {%- set tool_call = tool_call.function %}
            {%- endif %}
            {{- '\n<tool_call>\n{"name": "' }}
            {{- tool_call.name }}
            {{- '", "arguments": ' }}
            {{- tool_call.arguments | tojson }}
            {{- '}\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\n<tool_response>\n' }}
        {{- message.content }}
        {{- '\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}
"""


@template("thoughts kept after the last question only", THINKING)
def _():
    r"""{%- set ns = namespace(multi_step=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if (message.role == "user") or (message.role == "system") %}
        {{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning_content = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index %}
            {%- if loop.last or (not loop.last and reasoning_content) %}
                {{- '<|im_start|>' + message.role + '\n<think>\n' + reasoning_content.strip('\n') + '\n</think>\n\n' + content.lstrip('\n') }}
            {%- else %}
                {{- '<|im_start|>' + message.role + '\n' + content }}
            {%- endif %}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}
                    {{- '\n' }}
                {%- endif %}
                {%- if tool_call.function %}
                    {%- set tool_call = tool_call.function %}
                {%- endif %}
                {{- '<tool_call>\n{"name": "' + tool_call.name + '", "arguments": ' }}
                {%- if tool_call.arguments is string %}
                    {{- tool_call.arguments }}
                {%- else %}
                    {{- tool_call.arguments | tojson }}
                {%- endif %}
                {{- '}\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\n<tool_response>\n' + content + '\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\n\n</think>\n\n' }}
    {%- endif %}
{%- endif %}"""


@template("turns of user and model", PARTED)
def _():
    r"""{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set first_user_prefix = messages[0]['content'] + '\n\n' -%}
    {%- else -%}
        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '\n\n' -%}
    {%- endif -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("Roles must alternate") }}
    {%- endif -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '
' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}
                {{ '<start_of_image>' }}
            {%- elif item['type'] == 'text' -%}
                {{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("Invalid content type") }}
    {%- endif -%}
    {{ '<end_of_turn>
' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model
'}}
{%- endif -%}
"""


@template("no system role, turns checked", PLAIN)
def _():
    r"""{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must alternate') }}{% endif %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '
' + message['content'] | trim + '<end_of_turn>
' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model
'}}{% endif %}"""


@template("tags of the role's name", PLAIN)
def _():
    r"""{% for message in messages %}{% if message['role'] == 'system' and message['content'] %}{{'<|system|>
' + message['content'] + '<|end|>
'}}{% elif message['role'] == 'user' %}{{'<|user|>
' + message['content'] + '<|end|>
'}}{% elif message['role'] == 'assistant' %}{{'<|assistant|>
' + message['content'] + '<|end|>
'}}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>
' }}{% else %}{{ eos_token }}{% endif %}"""


@template("role tags with a separator token and tools inline", TOOLED)
def _():
    r"""{% for message in messages %}{% if message['role'] == 'system' and 'tools' in message and message['tools'] is not none %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|tool|>' + message['tools'] + '<|/tool|>' + '<|end|>' }}{% else %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% else %}{{ eos_token }}{% endif %}"""


@template("a state in a namespace, thoughts cut from answers", THINKING)
def _():
    r"""{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{% set ns = namespace(is_first=false, is_tool=false, is_output_first=true, system_prompt='') %}{%- for message in messages %}{%- if message['role'] == 'system' %}{% set ns.system_prompt = message['content'] %}{%- endif %}{%- endfor %}{{bos_token}}{{ns.system_prompt}}{%- for message in messages %}{%- if message['role'] == 'user' %}{%- set ns.is_tool = false -%}{{'<|User|>' + message['content']}}{%- endif %}{%- if message['role'] == 'assistant' and message['tool_calls'] %}{%- set ns.is_tool = false -%}{%- for tool in message['tool_calls']%}{%- if not ns.is_first %}{{'<|Assistant|><|calls|><|call|>' + tool['type'] + '<|sep|>' + tool['function']['name'] + '\n' + '```json' + '\n' + tool['function']['arguments']|tojson + '\n' + '```' + '<|/call|>'}}{%- set ns.is_first = true -%}{%- else %}{{'\n' + '<|call|>' + tool['type']}}{%- endif %}{%- endfor %}{{'<|/calls|><|eos|>'}}{%- endif %}{%- if message['role'] == 'assistant' and not message['tool_calls'] %}{%- if ns.is_tool %}{{'<|/outputs|>' + message['content'] + '<|eos|>'}}{%- set ns.is_tool = false -%}{%- else %}{% set content = message['content'] %}{% if '</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif %}{{'<|Assistant|>' + content + '<|eos|>'}}{%- endif %}{%- endif %}{%- if message['role'] == 'tool' %}{%- set ns.is_tool = true -%}{%- if ns.is_output_first %}{{'<|outputs|><|output|>' + message['content'] + '<|/output|>'}}{%- set ns.is_output_first = false %}{%- else %}{{'\n<|output|>' + message['content'] + '<|/output|>'}}{%- endif %}{%- endif %}{%- endfor -%}{% if ns.is_tool %}{{'<|/outputs|>'}}{% endif %}{% if add_generation_prompt and not ns.is_tool %}{{'<|Assistant|>'}}{% endif %}"""


@template("plain words before each turn", PLAIN)
def _():
    r"""{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}{{ 'User: ' + message['content'] + '

' }}{% elif message['role'] == 'assistant' %}{{ 'Assistant: ' + message['content'] + eos_token }}{% elif message['role'] == 'system' %}{{ message['content'] + '

' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"""


@template("instructions and responses", PLAIN)
def _():
    r"""{%- set found = namespace(system=false) -%}
{%- for message in messages -%}
    {%- if message['role'] == 'system' -%}
        {%- set found.system = true -%}
    {%- endif -%}
{%- endfor -%}
{{bos_token}}{%- if not found.system -%}
{{'You write code.\n'}}
{%- endif %}
{%- for message in messages %}
    {%- if message['role'] == 'system' %}
{{ message['content'] }}
    {%- else %}
        {%- if message['role'] == 'user' %}
{{'### Instruction:\n' + message['content'] + '\n'}}
        {%- else %}
{{'### Response:\n' + message['content'] + '\n<|EOT|>\n'}}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{% if add_generation_prompt %}
{{- '### Response:' }}
{% endif %}"""


@template("documents and citations by macros", DOCUMENTED)
def _():
    r"""{%- macro document_turn(documents) -%}
<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|><results>
{% for doc in documents %}
Document: {{ loop.index0 }}
{% for key, val in doc.items() %}
{{ key | title }}: {{ val }}
{% endfor %}
{% if not loop.last %}

{% endif %}
{% endfor %}
</results><|END_OF_TURN_TOKEN|>
{%- endmacro -%}
{%- macro cite(mode='accurate') -%}
{% if mode == 'fast' %}Cite quickly.{% else %}Cite with care, as [{{ documents | map(attribute='title') | join('; ') }}].{% endif %}
{%- endmacro -%}
{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- set loop_messages = messages[1:] %}
    {%- set system_message = messages[0]['content'] -%}
{%- else -%}
    {%- set loop_messages = messages -%}
    {%- set system_message = '## Task\nHelp people.' -%}
{%- endif -%}
{{ '<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>' + system_message + '<|END_OF_TURN_TOKEN|>' }}
{%- for message in loop_messages %}
    {%- set content = message['content'] %}
    {%- if message['role'] == 'user' %}
        {{- '<|START_OF_TURN_TOKEN|><|USER_TOKEN|>' + content.strip() + '<|END_OF_TURN_TOKEN|>' }}
    {%- elif message['role'] == 'assistant' %}
        {{- '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' + content.strip() + '<|END_OF_TURN_TOKEN|>' }}
    {%- endif %}
{%- endfor %}
{%- if documents %}{{ document_turn(documents) }}
{{- '<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>' + cite(citation_mode | default('accurate')) + '<|END_OF_TURN_TOKEN|>' }}{% endif %}
{%- if add_generation_prompt %}
    {{- '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}
{%- endif %}"""


@template("roles of one tag each, last turn open", PLAIN)
def _():
    r"""{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>
'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}"""


@template("line ends replaced in contents", PLAIN)
def _():
    r"""{% for message in messages %}{% if not loop.first %}{{ '\n' }}{% endif %}{% if message['role'] == 'system' %}{{ message['content'] }}{% elif message['role'] == 'user' %}{{ '\nUser: ' + message['content'].replace('\r\n', '\n').replace('\n\n', '\n') }}{% elif message['role'] == 'assistant' %}{{ '\nFalcon: ' + message['content'] }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '\n' + 'Falcon:' }}{% endif %}"""


@template("role markers, documents and tools with separators", DOCUMENTED + TOOLED[4:])
def _():
    r"""{%- if messages[0]['role'] == 'system' %}
     {%- set system_message = messages[0]['content'] %}
     {%- set loop_messages = messages[1:] %}
 {%- else %}
     {%- set system_message = "Knowledge ends in April 2024." %}
     {%- if tools and documents %}
         {%- set system_message = system_message + " Use tools, then documents." %}
     {%- elif tools %}
         {%- set system_message = system_message + " Use tools." %}
     {%- elif documents %}
         {%- set system_message = system_message + " Use documents." %}
     {%- endif %}
     {%- set loop_messages = messages %}
 {%- endif %}
 {{- '<|start_of_role|>system<|end_of_role|>' + system_message + '<|end_of_text|>\n' }}
 {%- if tools %}
     {{- '<|start_of_role|>tools<|end_of_role|>' }}
     {{- tools | tojson(indent=4) }}
     {{- '<|end_of_text|>\n' }}
 {%- endif %}
 {%- if documents %}
     {{- '<|start_of_role|>documents<|end_of_role|>' }}
     {%- for document in documents %}
         {{- 'Document ' + loop.index0 | string + '\n' }}
         {{- document['text'] }}
         {%- if not loop.last %}
              {{- '\n\n'}}
         {%- endif %}
     {%- endfor %}
     {{- '<|end_of_text|>\n' }}
 {%- endif %}
 {%- for message in loop_messages %}
     {{- '<|start_of_role|>' + message['role'] + '<|end_of_role|>' + message['content'] + '<|end_of_text|>\n' }}
     {%- if loop.last and add_generation_prompt %}
         {{- '<|start_of_role|>assistant' }}
             {%- if controls %}
                 {{- ' ' + controls | tojson()}}
             {%- endif %}
         {{- '<|end_of_role|>' }}
     {%- endif %}
 {%- endfor %}"""


@template("modes by words in the system message, generation marked", THINKING)
def _():
    r"""{# the mode, and what is custom #}
{%- set enable_thinking = enable_thinking if enable_thinking is defined else true -%}
{%- if enable_thinking -%}{%- set reasoning_mode = "/think" -%}{%- else -%}{%- set reasoning_mode = "/no_think" -%}{%- endif -%}
{{- "<|im_start|>system\n" -}}
{%- if messages[0].role == "system" -%}
  {%- set system_message = messages[0].content -%}
  {%- if "/no_think" in system_message -%}
    {%- set reasoning_mode = "/no_think" -%}
  {%- elif "/think" in system_message -%}
    {%- set reasoning_mode = "/think" -%}
  {%- endif -%}
  {%- set custom_instructions = system_message.replace("/no_think", "").replace("/think", "").rstrip() -%}
{%- endif -%}
{%- if "/system_override" in (system_message or "") -%}
  {{- custom_instructions.replace("/system_override", "").rstrip() -}}
  {{- "<|im_end|>\n" -}}
{%- else -%}
  {{- "## Metadata\n\nReasoning Mode: " + reasoning_mode + "\n\n" -}}
  {{- "## Custom Instructions\n\n" -}}
  {%- if custom_instructions -%}
    {{- custom_instructions + "\n\n" -}}
  {%- elif reasoning_mode == "/think" -%}
    {{- "You think first.\n\n" -}}
  {%- else -%}
    {{- "You answer at once.\n\n" -}}
  {%- endif -%}
  {%- if tools -%}
    {{- "### Tools\n\n" -}}
    {%- set ns = namespace(xml="<tools>") -%}
    {%- for tool in tools -%}
      {%- set ns.xml = ns.xml ~ "\n" ~ (tool | string) -%}
    {%- endfor -%}
    {{- ns.xml + "\n</tools>\n\n" -}}
  {%- endif -%}
  {{- "<|im_end|>\n" -}}
{%- endif -%}
{%- for message in messages -%}
  {%- set content = message.content if message.content is string else "" -%}
  {%- if message.role == "user" -%}
    {{ "<|im_start|>" + message.role + "\n"  + content + "<|im_end|>\n" }}
  {%- elif message.role == "assistant" -%}
    {%- generation -%}
    {%- if reasoning_mode == "/think" -%}
      {{ "<|im_start|>assistant\n" + content.lstrip("\n") + "<|im_end|>\n" }}
    {%- else -%}
      {{ "<|im_start|>assistant\n" + "<think>\n\n</think>\n" + content.lstrip("\n") + "<|im_end|>\n" }}
    {%- endif -%}
    {%- endgeneration -%}
  {%- elif message.role == "tool" -%}
    {{ "<|im_start|>" + "user\n"  + content + "<|im_end|>\n" }}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {%- if reasoning_mode == "/think" -%}
    {{ "<|im_start|>assistant\n" }}
  {%- else -%}
    {{ "<|im_start|>assistant\n" + "<think>\n\n</think>\n"  }}
  {%- endif -%}
{%- endif -%}
"""


@template("a recursive macro writes the types of parameters", TOOLED)
def _():
    r"""{%- macro render_type(spec, depth=0) -%}
    {%- if spec.type == "object" -%}
        {{- "{" }}
        {%- for name, prop in spec.properties.items() %}
            {{- "\n" + "  " * (depth + 1) + name + ("" if name in (spec.required or []) else "?") + ": " + render_type(prop, depth + 1) }}
            {{- "," if not loop.last }}
        {%- endfor %}
        {{- "\n" + "  " * depth + "}" }}
    {%- elif spec.enum is defined -%}
        {{- spec.enum | map("tojson") | join(" | ") }}
    {%- elif spec.type is string -%}
        {{- spec.type }}
    {%- else -%}
        {{- "any" }}
    {%- endif -%}
{%- endmacro -%}
{%- if tools %}
    {{- "<|developer|>namespace functions {\n\n" }}
    {%- for tool in tools %}
        {%- set tool = tool.function %}
        {{- "// " + tool.description + "\n" }}
        {{- "type " + tool.name + " = (_: " }}
        {{- render_type(tool.parameters) }}
        {{- ") => any;\n\n" }}
    {%- endfor %}
    {{- "}<|end|>" }}
{%- endif %}
{%- for message in messages %}
    {{- "<|start|>" ~ message.role ~ "<|message|>" ~ (message.content or "") ~ "<|end|>" }}
{%- endfor %}
{%- if add_generation_prompt %}{{- "<|start|>assistant" }}{% endif %}"""


@template("call blocks and block assignments", PLAIN)
def _():
    r"""{% macro turn(role, open=false) %}
<turn role="{{ role }}">
{{ caller() | trim }}
{% if not open %}
</turn>
{% endif %}
{% endmacro %}
{% set header %}
{% for role, of_role in messages | groupby('role') %}
{{ role }}: {{ of_role | length }}
{% endfor %}
{% endset %}
{{ header | trim | indent(2, true) }}
{% for m in messages %}
{% call turn(m.role) %}
   {{ m.content | e }}
{% endcall %}
{% endfor %}
{% if add_generation_prompt %}
{% call turn('assistant', open=true) %}{% endcall %}
{% endif %}"""


@template("loops with breaks, cycles and filter blocks", PLAIN)
def _():
    r"""{%- for m in messages if m.role != 'system' -%}
  {%- if loop.index > 2 %}{% break %}{% endif -%}
  {%- if m.content | length < 3 %}{% continue %}{% endif -%}
  {{ loop.cycle('[odd] ', '[even] ') }}{{ loop.index }}/{{ loop.length }} {{ loop.revindex0 }} {{ m.content.split() | join('_') }}
  {%- if loop.changed(m.role) %} *{{ m.role[:1] | upper }}*{% endif %}
  {%- if loop.nextitem is defined %} > {{ loop.nextitem.role }}{% endif %}
  {%- if loop.previtem is defined %} < {{ loop.previtem.role }}{% endif %}

{% else -%}
  nobody
{%- endfor %}
{% filter upper | replace('S', '$') -%}
  roles: {{ messages | map(attribute='role') | unique | sort | join(', ') }}
{%- endfilter %}
{% with first = messages | first, last = messages[-1] %}
{{ first.role ~ '..' ~ last['role'] }}
{% endwith %}"""


@template("whitespace control of every kind", PLAIN)
def _():
    r"""
  {%+ if true %}
    kept
  {%+ endif +%}

  {#- gone -#}

{% for m in messages -%}
	{{- m.role }}:
    {%- for word in m.content.split(' ') %}

      {{ word -}}
    {% endfor %}
  {% raw -%}
   {{ not this }} {% nor this %}
  {%- endraw %}
{% endfor +%}
{# last #}

{% if add_generation_prompt %}go{% endif %}
"""


@template("names chosen by dicts, keys, tests and numbers", PLAIN)
def _():
    r"""{% set names = {'user': 'Human', 'assistant': 'AI'} %}
{% set counts = namespace(chars=0, words=0) %}
{% for m in messages %}
{% set who = names.get(m.role, m.role | capitalize) %}
{% set counts.chars = counts.chars + m.content | length %}
{% set counts.words = counts.words + m.content.split() | length %}
{{ '%02d %-10s|%5.1f%%' | format(loop.index, who, 100 * loop.index / loop.length) }} {{ '{0}:{1!r}'.format(who, m.content) }}
{% endfor %}
{{ counts.chars }} {{ counts.words // 2 }} {{ (counts.words % 2) is odd }} {{ (counts.chars / 7) | round(2) }} {{ counts }}
{{ names | dictsort | tojson }} {{ names.keys() | list }} {{ 'x' in names }} {{ 1 < counts.words <= 3 }} {{ messages[0].role is in ['user', 'system'] }}
{{ [1, 2, 3][::-1] + [4] }} {{ 'abc'[1:] * 2 }} {{ (1, 2)[-1] }} {{ none }} {{ true and not false }} {{ 2 ** 10 }} {{ 7 // -2 }} {{ -7 % 3 }} {{ 1e3 }} {{ 10 / 4 }}"""


@template("thoughts and modes of one line, reasoning fields", THINKING)
def _():
    r"""{%- if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif -%}
{%- set last = namespace(user=-1) -%}
{%- for m in messages %}{% if m.role == 'user' %}{% set last.user = loop.index0 %}{% endif %}{% endfor -%}
[gMASK]<sop>
{%- for m in messages %}
{%- if m.role == 'user' %}<|user|>
{{ m.content }}{{ '/nothink' if (enable_thinking is defined and not enable_thinking and not m.content.endswith('/nothink')) else '' }}
{%- elif m.role == 'assistant' %}<|assistant|>
{%- set parts = m.content.partition('</think>') %}
{%- if loop.index0 > last.user and m.thinking is defined %}
<think>{{ m.thinking | trim }}</think>
{%- elif parts[1] %}
<think></think>
{%- endif %}
{{ (parts[2] if parts[1] else parts[0]) | trim }}
{%- for call in m.tool_calls or [] %}
{% set call = call.function or call %}
<tool_call>{{ call.name }}
{% for k, v in call.arguments.items() %}<arg_key>{{ k }}</arg_key>
<arg_value>{{ v | tojson(ensure_ascii=False) if v is not string else v }}</arg_value>
{% endfor %}</tool_call>
{%- endfor %}
{%- elif m.role == 'tool' %}
{%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}<|observation|>{% endif %}

<tool_response>
{{- m.content if m.content is string else m.content | map(attribute='output') | join('\n') -}}
</tool_response>
{%- else %}<|{{ m.role }}|>
{{ m.content }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|assistant|>{{ '\n<think></think>' if enable_thinking is defined and not enable_thinking }}{% endif %}"""


@template("contents of parts counted and numbered", PARTED)
def _():
    r"""{% set image_count = namespace(value=0) %}{% for message in messages %}{% if loop.first and message['role'] != 'system' %}<|im_start|>system
You see.<|im_end|>
{% endif %}<|im_start|>{{ message['role'] }}
{% if message['content'] is string %}{{ message['content'] }}<|im_end|>
{% else %}{% for content in message['content'] %}{% if content['type'] == 'image' or 'image' in content %}{% set image_count.value = image_count.value + 1 %}{% if add_vision_id %}Picture {{ image_count.value }}: {% endif %}<|vision|>{% elif 'text' in content %}{{ content['text'] }}{% endif %}{% endfor %}<|im_end|>
{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


@template("a recursive loop, joiners and cyclers", TOOLED)
def _():
    r"""{%- set comma = joiner('; ') -%}
{%- for m in messages -%}{{ comma() }}{{ m.role }}{%- endfor %}
{% set row = cycler('a', 'b') %}{{ row.next() }}{{ row.next() }}{{ row.next() }}{{ row.current }}
{% for key, value in (tools or [{'k': {'l': 1}}])[0].items() recursive %}
{{ '-' * loop.depth }} {{ key }}{% if value is mapping %}:
{{ loop(value.items()) }}{% elif value is sequence and value is not string %} = {{ value | join('/') }}
{% else %} = {{ value }}
{% endif %}
{% endfor %}"""


@template("what is not there", PLAIN)
def _():
    r"""[{{ nothing }}][{{ messages[99] }}][{{ messages[0].nothing }}][{{ nothing | default('d') }}][{{ '' | default('e', true) }}][{{ nothing is defined }}][{{ tools is none }}][{{ documents }}][{{ messages[0]['nothing'] or 'or' }}][{{ 'x' if false }}]
{%- for x in nothing %}{{ x }}{% else %}[else]{% endfor %}
{%- if messages | length > 2 %}{{ nothing.more }}{% endif %}"""


def render(source, case):
    arguments = copy.deepcopy(case)
    try:
        texts, _ = render_jinja_template(conversations=[arguments.pop("messages")],
                                         chat_template=source, **arguments, **TOKENS)
        return texts[0]
    except Exception:  # whatever the template or Jinja raises
        return None


out = [{"name": name, "template": source,
        "cases": [{"variables": case, "rendered": render(source, case)} for case in cases]}
       for name, (source, cases) in TEMPLATES.items()]
print(json.dumps({"tokens": TOKENS, "templates": out}, indent=1, ensure_ascii=True))
