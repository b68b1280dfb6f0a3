"""The chat template of the built-in model: the Jinja text that goes into the GGUF, and the same rendering in Python.

Training renders with `render`; the service renders with `CHAT_TEMPLATE`. `compare.py` compares both. Tools are listed as
one short signature per line, because a full schema costs a small model more tokens than it can use.
"""

import json

IM_START = "<|im_start|>"
IM_END = "<|im_end|>"
END_OF_TEXT = "<|endoftext|>"
TOOL_CALL = "<tool_call>"
TOOL_CALL_END = "</tool_call>"
TOOLS = "<tools>"
TOOLS_END = "</tools>"

CONTROL_TOKENS = [END_OF_TEXT, IM_START, IM_END]
MARKER_TOKENS = [TOOL_CALL, TOOL_CALL_END, TOOLS, TOOLS_END]

CHAT_TEMPLATE = r"""{%- set has_system = messages and messages[0].role == 'system' -%}
{%- if has_system or tools -%}
    {{- '<|im_start|>system\n' -}}
    {%- if has_system -%}
        {{- messages[0].content -}}
    {%- endif -%}
    {%- if tools -%}
        {{- ('\n\n' if has_system else '') + '<tools>' -}}
        {%- for tool in tools -%}
            {%- set function = tool.function -%}
            {{- '\n' + function.name + '(' -}}
            {%- if function.parameters and function.parameters.properties -%}
                {%- for key, value in function.parameters.properties.items() -%}
                    {{- key -}}
                    {%- if function.parameters.required and key not in function.parameters.required -%}
                        {{- '?' -}}
                    {%- endif -%}
                    {{- ': ' + (value.type if value.type is string else 'any') -}}
                    {%- if not loop.last -%}
                        {{- ', ' -}}
                    {%- endif -%}
                {%- endfor -%}
            {%- endif -%}
            {{- ')' -}}
            {%- if function.description -%}
                {{- ' - ' + function.description -}}
            {%- endif -%}
        {%- endfor -%}
        {{- '\n</tools>' -}}
    {%- endif -%}
    {{- '<|im_end|>\n' -}}
{%- endif -%}
{%- for message in messages -%}
    {%- if message.role == 'assistant' -%}
        {{- '<|im_start|>assistant\n' -}}
        {%- if message.content -%}
            {{- message.content -}}
        {%- endif -%}
        {%- if message.tool_calls -%}
            {%- for call in message.tool_calls -%}
                {%- if message.content or not loop.first -%}
                    {{- '\n' -}}
                {%- endif -%}
                {{- '<tool_call>\n{"name": "' + call.function.name + '", "arguments": ' + (call.function.arguments | tojson) + '}\n</tool_call>' -}}
            {%- endfor -%}
        {%- endif -%}
        {{- '<|im_end|>\n' -}}
    {%- elif not (loop.first and has_system) -%}
        {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' -}}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<|im_start|>assistant\n' -}}
{%- endif -%}
"""


def dump(value):
    """JSON as the template engine's `tojson` prints it."""
    return json.dumps(value, ensure_ascii=False)


def signature(function):
    """One line of the tools listing."""
    parameters = function.get("parameters") or {}
    required = parameters.get("required")
    fields = []
    for key, value in (parameters.get("properties") or {}).items():
        mark = "?" if required and key not in required else ""
        kind = value.get("type")
        fields.append(f"{key}{mark}: {kind if isinstance(kind, str) else 'any'}")
    tail = " - " + function["description"] if function.get("description") else ""
    return f"{function['name']}({', '.join(fields)}){tail}"


def call_text(function):
    return f'{TOOL_CALL}\n{{"name": "{function["name"]}", "arguments": {dump(function["arguments"])}}}\n{TOOL_CALL_END}'


def assistant_text(message):
    """What the model writes in an assistant turn, without the end token."""
    parts = [message["content"]] if message.get("content") else []
    parts += [call_text(call["function"]) for call in message.get("tool_calls") or []]
    return "\n".join(parts)


def segments(messages, tools=None):
    """Yields (text, spoken): `spoken` is true for text that the model must produce. One yield per part of a turn."""
    has_system = bool(messages) and messages[0]["role"] == "system"
    if has_system or tools:
        head = IM_START + "system\n" + (messages[0]["content"] if has_system else "")
        if tools:
            head += ("\n\n" if has_system else "") + TOOLS
            head += "".join("\n" + signature(tool["function"]) for tool in tools) + "\n" + TOOLS_END
        yield head + IM_END + "\n", False
    for message in messages[1 if has_system else 0:]:
        if message["role"] == "assistant":
            yield IM_START + "assistant\n", False
            yield (message if message.get("forced") else assistant_text(message)), True
            yield "\n", False
        else:
            yield f"{IM_START}{message['role']}\n{message['content']}{IM_END}\n", False


def render(messages, tools=None, add_generation_prompt=True):
    """The prompt as the template renders it."""
    text = "".join(part + IM_END if spoken else part for part, spoken in segments(messages, tools))
    return text + (IM_START + "assistant\n" if add_generation_prompt else "")
