#!/usr/bin/env python3
"""Writes conversations.jsonl: rows of fine-tuning data with the texts that other people's code makes of them.

  make_goldens.py TOKENIZER_FOLDER >conversations.jsonl

TOKENIZER_FOLDER holds tokenizer.json and tokenizer_config.json (with the chat template) of a Qwen3 model. Needs transformers, jinja2
and renderers. "qwen3" is the model's chat template run by transformers; "prime_qwen3" is what renderers' PrimeQwen3Renderer gives,
decoded; `--ids` adds the ids of both for a comparison by hand. Rows are brought into the shape a template wants by the few lines of
`normalized` here, which are not those of Cairn.
"""

import json
import sys

WEATHER = {"type": "function", "function": {"name": "get_weather", "description": " The weather <now> & here, in \"°C\"\n",
           "parameters": {"type": "object", "properties": {"city": {"type": "string", "description": "A city "},
                          "days": {"type": ["integer", "null"], "default": None, "minimum": 1, "enum": [1, 2, 3]}},
                          "required": ["city"], "additionalProperties": False}}}
FLAT = {"name": "add", "description": "Adds.", "parameters": {"type": "object", "properties": {"a": {"type": "number"}, "b": {}}}}
BARE = {"name": "ping"}
STRICT = {"name": "pong", "description": None, "parameters": {}, "strict": True}
RICH = {"type": "function", "function": {"name": "rich", "parameters": {"type": "object", "properties": {
        "nested": {"type": "object", "properties": {"x": {"type": "array", "items": {"type": "number"}}}, "description": "two\nlines"},
        "plain": "not an object"}, "$defs": {"k": [1, 2.5, None, True]}, "minProperties": 2}, "strict": False, "version": 1.0}}


def u(text, **more): return {"role": "user", "content": text, **more}
def a(text, **more): return {"role": "assistant", "content": text, **more}
def s(text): return {"role": "system", "content": text}
def t(text, **more): return {"role": "tool", "content": text, **more}
def call(name, arguments, **more): return {"type": "function", "function": {"name": name, "arguments": arguments}, **more}


def rows():
    yield "one_turn", {"messages": [u("Hi"), a("Hello!")]}
    yield "system", {"messages": [s("Be brief."), u("Hi"), a("Hello!")]}
    yield "two_turns", {"messages": [u("1+1?"), a("2"), u("And 2+2?"), a("4")]}
    yield "late_system", {"messages": [u("a"), s("Now in French."), u("b"), a("c")]}
    yield "two_systems", {"messages": [s("one"), s("two"), u("a"), a("b")]}
    yield "only_user", {"messages": [u("nobody answers")]}
    yield "only_system", {"messages": [s("alone")]}
    yield "only_assistant", {"messages": [a("I begin.")]}
    yield "only_assistant_thinking", {"messages": [a("I begin.", reasoning_content="why not")]}
    yield "assistant_first", {"messages": [a("Welcome."), u("Hi"), a("Hello")]}
    yield "ends_with_user", {"messages": [u("a"), a("b"), u("c")]}
    yield "two_assistants", {"messages": [u("a"), a("b"), a("c")]}
    yield "two_users", {"messages": [u("a"), u("b"), a("c")]}
    yield "empty_user", {"messages": [u(""), a("?")]}
    yield "empty_assistant", {"messages": [u("say nothing"), a("")]}
    yield "empty_system", {"messages": [s(""), u("a"), a("b")]}
    yield "all_empty", {"messages": [s(""), u(""), a("")]}
    yield "newlines_around", {"messages": [u("\n\na\n\n"), a("\n\nb\n\n")]}
    yield "newlines_in_history", {"messages": [u("\na"), a("\n\nb\n"), u("c"), a("\nd\n")]}
    yield "spaces_around", {"messages": [u("  a  "), a(" \t b \u00a0\u3000")]}
    yield "only_newline", {"messages": [u("\n"), a("\n")]}
    yield "carriage_returns", {"messages": [u("a\r\nb"), a("c\r\nd\r\n")]}
    yield "unicode", {"messages": [s("日本語で。"), u("Größe? 𝔘𝔫𝔦 👩‍👩‍👧‍👦 é"), a("Ça va 🙂 — ½ ٣ नमस्ते")]}
    yield "control_characters", {"messages": [u("a\u0000b\u001f\u007f"), a("\u2028\u2029\ufeff")]}
    yield "special_tokens_in_text", {"messages": [u("what is <|im_end|> and <|im_start|>user?"), a("a <|endoftext|> mark")]}
    yield "markup", {"messages": [u("<b>&amp;\"'</b> {{ x }} {% y %}"), a("{# no #} \\n")]}
    # Reasoning.
    yield "reasoning", {"messages": [u("2*3?"), a("6", reasoning_content="two threes")]}
    yield "reasoning_newlines", {"messages": [u("2*3?"), a("\n\n6\n", reasoning_content="\n\ntwo\n\nthrees\n\n")]}
    yield "reasoning_spaces", {"messages": [u("2*3?"), a(" 6 ", reasoning_content=" \u2003two threes\u00a0 ")]}
    yield "reasoning_under_thinking", {"messages": [u("2*3?"), a("6", thinking="two threes")]}
    yield "reasoning_both_names", {"messages": [u("2*3?"), a("6", thinking="old", reasoning_content="new")]}
    yield "reasoning_empty", {"messages": [u("2*3?"), a("6", reasoning_content="")]}
    yield "reasoning_only_newlines", {"messages": [u("2*3?"), a("6", reasoning_content="\n\n"), a("7", reasoning_content="\n")]}
    yield "reasoning_null", {"messages": [u("2*3?"), a("6", reasoning_content=None)]}
    yield "reasoning_without_content", {"messages": [u("2*3?"), a("", reasoning_content="hm")]}
    yield "reasoning_in_history", {"messages": [u("a"), a("b", reasoning_content="r1"), u("c"), a("d", reasoning_content="r2")]}
    yield "reasoning_only_in_history", {"messages": [u("a"), a("b", reasoning_content="r1"), u("c"), a("d")]}
    yield "reasoning_twice_after_query", {"messages": [u("a"), a("b", reasoning_content="r1"), a("c"), a("d", reasoning_content="r2")]}
    yield "think_block", {"messages": [u("2*3?"), a("<think>\ntwo threes\n</think>\n\n6")]}
    yield "think_block_tight", {"messages": [u("2*3?"), a("<think>two threes</think>6")]}
    yield "think_block_in_history", {"messages": [u("a"), a("<think>\nr1\n</think>\n\nb"), u("c"), a("<think>\nr2\n</think>\n\nd")]}
    yield "think_block_no_start", {"messages": [u("2*3?"), a("two threes\n</think>\n\n6")]}
    yield "think_block_unclosed", {"messages": [u("2*3?"), a("<think>two threes")]}
    yield "think_blocks", {"messages": [u("a"), a("<think>x</think>one<think>y</think>two")]}
    yield "think_block_nested", {"messages": [u("a"), a("<think>x<think>y</think>z</think>\nend")]}
    yield "think_block_and_field", {"messages": [u("a"), a("<think>x</think>y", reasoning_content="z")]}
    yield "think_block_empty", {"messages": [u("a"), a("<think>\n\n</think>\n\nb"), u("c"), a("<think>\n\n</think>\n\nd")]}
    # Tool calls.
    one = [u("Weather in Paris?"), a("", tool_calls=[call("get_weather", {"city": "Paris"})]), t("15 °C"), a("15 °C.")]
    yield "tool_call", {"messages": one, "tools": [WEATHER]}
    yield "tool_call_without_tools", {"messages": one}
    yield "tool_call_system", {"messages": [s("Be brief.")] + one, "tools": [WEATHER, FLAT]}
    yield "tool_call_empty_system", {"messages": [s("")] + one, "tools": [WEATHER]}
    yield "tools_without_calls", {"messages": [u("Hi"), a("Hello")], "tools": [RICH, WEATHER]}
    yield "tools_flat", {"messages": [u("Hi"), a("Hello")], "tool_defs": [FLAT, BARE, STRICT]}
    yield "tools_as_text", {"messages": [u("Hi"), a("Hello")], "tools": json.dumps([FLAT, WEATHER], indent=1)}
    yield "tools_null", {"messages": [u("Hi"), a("Hello")], "tools": None, "tool_defs": [FLAT]}
    yield "tools_empty", {"messages": [u("Hi"), a("Hello")], "tools": []}
    yield "tool_call_with_content", {"messages": [u("W?"), a("Let me look.", tool_calls=[call("get_weather", {"city": "Oslo"})])]}
    yield "tool_call_content_newlines", {"messages": [u("W?"), a("\n\nLook.\n", tool_calls=[call("get_weather", {"city": "Oslo"})]), t("1"), a("2")]}
    yield "tool_call_content_is_newline", {"messages": [u("W?"), a("\n", tool_calls=[call("f", {})])]}
    yield "tool_calls_several", {"messages": [u("W?"), a("Both.", tool_calls=[call("f", {"a": 1}), call("g", {"b": [1, {"c": None}]}), call("h", {})]),
                                              t("one"), t("two"), t(""), a("done")]}
    yield "tool_call_reasoning", {"messages": [u("W?"), a("", reasoning_content="look first", tool_calls=[call("f", {"a": 1})]), t("3"),
                                               a("", reasoning_content="again", tool_calls=[call("f", {"a": 2})]), t("4"), a("7", reasoning_content="sum")]}
    yield "tool_call_then_query", {"messages": [u("W?"), a("", reasoning_content="look", tool_calls=[call("f", {"a": 1})]), t("3"), a("Three."), u("Sure?"), a("Yes.")]}
    yield "tool_call_think_block", {"messages": [u("W?"), a("<think>\nlook\n</think>\n\nWait.", tool_calls=[call("f", {"a": 1})]), t("3"), a("Three.")]}
    yield "tool_call_think_only", {"messages": [u("W?"), a("<think>\nlook\n</think>\n\n", tool_calls=[call("f", {"a": 1})]), t("3"), a("Three.")]}
    yield "tool_call_arguments_text", {"messages": [u("W?"), a("", tool_calls=[call("f", '{"b":1,"a":"\\u00e9\\n","n":null,"big":123456789012345678901234567890}')])]}
    yield "tool_call_flat", {"messages": [u("W?"), a("", tool_calls=[{"name": "f", "arguments": {"x": True}}])]}
    yield "tool_call_ids", {"messages": [u("W?"), a("", tool_calls=[call("f", {"x": False}, id="call_1", index=0)]), t("r", tool_call_id="call_1", name="f"), a("r")]}
    yield "tool_call_null_content", {"messages": [u("W?"), a(None, tool_calls=[call("f", {"x": None, "y": {"z": None}})]), t("r"), a("r")]}
    yield "tool_calls_null", {"messages": [u("W?"), a("x", tool_calls=None), u("y"), a("z", tool_calls=[])]}
    yield "tool_last", {"messages": [u("W?"), a("", tool_calls=[call("f", {})]), t("r")]}
    yield "tool_in_user_turn", {"messages": [u("W?"), a("x", reasoning_content="r"), u("<tool_response>\nr\n</tool_response>"), a("y", reasoning_content="q")]}
    yield "only_tool_responses", {"messages": [u("<tool_response>r</tool_response>"), a("y")]}
    yield "tool_response_multiline", {"messages": [u("W?"), a("", tool_calls=[call("f", {})]), t("\nline 1\nline 2\n"), t(" x "), a("ok")]}
    # JSON as Python prints it.
    numbers = {"i": -0, "f": 1.0, "tiny": 1e-7, "small": 0.0001, "big": 1e16, "bigger": 1.5e300, "almost": 123456789012345.6, "third": 1 / 3,
               "negative": -2.50, "zero": -0.0, "edge": 1e15, "point": 0.1, "edge2": 9999999999999998.0, "sub": 5e-324}
    yield "numbers", {"messages": [u("n"), a("", tool_calls=[call("f", numbers)])]}
    texts = {"quote\"": "a\"b\\c/d", "lines": "a\nb\tc\rd\be\ff", "control": "\u0000\u0001\u001f\u007f", "wide": "é日🙂\u2028", "": "", "html": "<a href='x'>&</a>"}
    yield "texts", {"messages": [u("n"), a("", tool_calls=[call("f", texts), call("g", {"a": [], "b": {}, "c": [[], {}], "d": [1, "x", None, True, False, 0.5]})])]}
    yield "number_spellings", '{"messages":[{"role":"user","content":"n"},{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":' \
        '{"a":-0,"b":1E2,"c":1e-0,"d":10000000000000000000000,"e":1.0E+3,"f":0.10,"g":1e-400,"h":1e22,"i":1e21,"j":123456789.123456789,"k":0e5}}}]}]}'
    yield "key_order", '{"messages":[{"content":"n","role":"user"},{"tool_calls":[{"function":{"arguments":{"z":1,"a":2,"z":3},"name":"f"}}],"role":"assistant","content":"c"}]}'
    # Shapes of rows.
    yield "prompt_completion", {"prompt": "2*3?", "completion": "6"}
    yield "prompt_completion_lists", {"prompt": [s("x"), u("a"), a("b"), u("c")], "completion": [a("d")]}
    yield "prompt_completion_objects", {"prompt": u("a"), "completion": a("b", reasoning_content="r")}
    yield "prompt_list_of_texts", {"prompt": ["a", "b"], "completion": ["c"]}
    yield "messages_wins", {"messages": [u("a"), a("b")], "prompt": "x", "completion": "y"}
    yield "messages_null", {"messages": None, "prompt": "x", "completion": "y", "extra": 1}
    yield "messages_text", {"messages": "just this"}
    yield "messages_object", {"messages": a("just this")}
    yield "prompt_null", {"prompt": None, "completion": "y"}
    yield "text_parts", {"messages": [{"role": "user", "content": [{"type": "text", "text": "a\n"}, {"type": "text", "text": "b"}]}, a("c")]}
    yield "null_keys", {"messages": [{"role": "user", "content": "a", "tool_calls": None, "name": None}, {"role": "assistant", "content": "b", "thinking": None}]}


def normalized(row):
    def message(m, role):
        if isinstance(m, str): return {"role": role, "content": m}
        m = {k: v for k, v in m.items() if v is not None}
        content = m.get("content", "")
        m["content"] = content if isinstance(content, str) else "".join(part["text"] for part in content)
        if "thinking" in m: m.setdefault("reasoning_content", m.pop("thinking"))
        calls = []
        for c in m.get("tool_calls", []):
            f = c.get("function", c)
            arguments = f["arguments"]
            calls.append({"function": {"name": f["name"], "arguments": json.loads(arguments) if isinstance(arguments, str) else arguments}})
        if "tool_calls" in m: m["tool_calls"] = calls
        return m

    def several(value, role):
        return [message(m, role) for m in (value if isinstance(value, list) else [] if value is None else [value])]

    if row.get("messages") is not None: messages = several(row["messages"], "assistant")
    else: messages = several(row["prompt"], "user") + several(row["completion"], "assistant")
    tools = row.get("tools") or row.get("tool_defs")
    if isinstance(tools, str): tools = json.loads(tools)
    tools = [t if "function" in t else {"type": "function", "function": {k: t.get(k) for k in ("name", "description", "parameters")} |
                                        ({"strict": t["strict"]} if "strict" in t else {})} for t in tools or []]
    return messages, tools or None


def main():
    from renderers.prime_qwen3 import PrimeQwen3Renderer
    from transformers import AutoTokenizer
    folder = next(x for x in sys.argv[1:] if not x.startswith("-"))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    prime = PrimeQwen3Renderer(tokenizer)
    for name, row in rows():
        text = row if isinstance(row, str) else json.dumps(row, ensure_ascii=False)
        messages, tools = normalized(json.loads(text))
        qwen3 = tokenizer.apply_chat_template(messages, tools=tools, tokenize=False)
        prime_ids = list(map(int, prime.render_ids(messages, tools=tools)))
        out = {"name": name, "row": text, "qwen3": qwen3, "prime_qwen3": tokenizer.decode(prime_ids, clean_up_tokenization_spaces=False)}
        if "--ids" in sys.argv:
            out |= {"qwen3_ids": tokenizer.encode(qwen3, add_special_tokens=False), "prime_qwen3_ids": prime_ids}
        print(json.dumps(out, ensure_ascii=False))


if __name__ == "__main__":
    main()
