// Chat templates by family name, for models whose file carries none or a wrong one: Jinja sources
// in each family's published format. Chosen by `recua chat --template`; the engine renders them.
// None writes a BOS token: tokenizing adds the vocabulary's.

export const templateNames = ['auto', 'chatml', 'llama3', 'mistral', 'gemma', 'phi3', 'qwen'] as const;
export type TemplateName = (typeof templateNames)[number];

export interface ChatTemplate {
  /** Jinja source; '' is the model's own. */
  source: string;
  /**
   * What ends a turn: a control token where the vocabulary has it, else text that has to stop the
   * answer.
   */
  stops: readonly string[];
}

/**
 * Both have no place for a system message: it goes before the first user message, after a blank
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

/** Qwen 2.5 brings a system message of its own where there is none. */
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

/** The third version of the format, that of Mistral 7B Instruct v0.3 and Mistral Large. */
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
