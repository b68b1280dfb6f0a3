// Chat templates by family name, for models whose file has none or a wrong one: Jinja sources in
// each family's published format. `recua chat --template` selects one; the engine renders it. None
// writes a BOS token: tokenizing adds the one from the vocabulary.

export const templateNames = ['auto', 'chatml', 'llama3', 'mistral', 'gemma', 'phi3', 'qwen'] as const;
export type TemplateName = (typeof templateNames)[number];

export interface ChatTemplate {
  /** Jinja source; '' means the model's own template. */
  source: string;
  /** What ends a turn: a control token if the vocabulary has it, else a stop text. */
  stops: readonly string[];
}

/**
 * Neither format has a system message: it goes before the first user message, followed by a blank
 * line.
 */
const foldSystem = `
{%- set system = '' -%}
{%- if messages and messages[0]['role'] == 'system' -%}
  {%- set system = messages[0]['content'] + '\\n\\n' -%}
  {%- set messages = messages[1:] -%}
{%- endif -%}`;

const chatml = `
{%- for message in messages -%}
  {{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{- '<|im_start|>assistant\\n' -}}
{%- endif -%}`;

/** Qwen 2.5 adds its own system message if there is none. */
const qwen = `
{%- if not messages or messages[0]['role'] != 'system' -%}
  {{- '<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\\n' -}}
{%- endif -%}${chatml}`;

const llama3 = `
{%- for message in messages -%}
  {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}
{%- endif -%}`;

/** Version 3 of the format, as in Mistral 7B Instruct v0.3 and Mistral Large. */
const mistral = `${foldSystem}
{%- for message in messages -%}
  {%- if message['role'] == 'assistant' -%}
    {{- ' ' + message['content'] | trim + '</s>' -}}
  {%- else -%}
    {{- '[INST] ' + (system if loop.first else '') + message['content'] + '[/INST]' -}}
  {%- endif -%}
{%- endfor -%}`;

const gemma = `${foldSystem}
{%- for message in messages -%}
  {{- '<start_of_turn>' + ('model' if message['role'] == 'assistant' else 'user') + '\\n' -}}
  {{- (system if loop.first else '') + message['content'] | trim + '<end_of_turn>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{- '<start_of_turn>model\\n' -}}
{%- endif -%}`;

const phi3 = `
{%- for message in messages -%}
  {{- '<|' + message['role'] + '|>\\n' + message['content'] + '<|end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{- '<|assistant|>\\n' -}}
{%- endif -%}`;

export const chatTemplates: Readonly<Record<TemplateName, ChatTemplate>> = {
  auto: { source: '', stops: [] },
  chatml: { source: chatml.trimStart(), stops: ['<|im_end|>'] },
  llama3: { source: llama3.trimStart(), stops: ['<|eot_id|>'] },
  mistral: { source: mistral.trimStart(), stops: ['</s>'] },
  gemma: { source: gemma.trimStart(), stops: ['<end_of_turn>'] },
  phi3: { source: phi3.trimStart(), stops: ['<|end|>'] },
  qwen: { source: qwen.trimStart(), stops: ['<|im_end|>'] },
};
