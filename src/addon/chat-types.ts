// The native addon's types for chats: messages in, a prompt and a parser out. Re-exported by
// addon.ts.

/**
 * One number: 0, or anything else to cancel the work that got the flag. In shared memory, which
 * cannot be detached while the addon's threads read it; newCancelFlag() makes one.
 */
export type CancelFlag = Int32Array;

/** A keyword of a JSON schema that the grammar does not enforce. */
export interface Unenforced {
  /** JSON pointer of the keyword in its schema. */
  pointer: string;
  /** Why, as a clause. */
  why: string;
  /** Index of the tool whose parameters it is in; -1 is the answer's own schema. */
  tool: number;
}

/**
 * A rendered chat. Only `prompt` and `shape` are needed further on: a sampler and a parser get the
 * rest from `shape`.
 */
export interface ChatPrompt {
  /** The rendered prompt text. */
  prompt: string;
  /**
   * Byte offsets of the prompt at which no control token begins, although its text may be there:
   * that text comes from messages. For `tokenize`.
   */
  literal: Int32Array;
  /** Opaque, for `createParser` and `createSampler`: how the answer is constrained and parsed. */
  shape: unknown;
  /** GBNF, or '' */
  grammar: string;
  grammarKind: 'user' | 'schema' | 'tools';
  grammarLazy: boolean;
  /** JSON: the triggers of a lazy grammar. */
  triggers: string;
  /** Texts of control tokens that the parser sees. */
  preserved: string[];
  /** Where a thinking block begins, and how it may end. */
  thinking: string[];
  generationPrompt: string;
  /** Keywords of the schema and the tools' parameters that the grammar does not enforce. */
  unenforced: Unenforced[];
  /** Strings that end the answer, besides the request's own. */
  stops: string[];
  /** True if the last message is the assistant's: the answer continues it. */
  continuation: boolean;
}

/** The grammar of a custom tool's text: GBNF rules, one per line; `root` is the first. */
export interface CustomInput {
  /** Index of the tool. */
  tool: number;
  root: string;
  /** For the text itself, and for the same text inside a JSON string, between the quotes. */
  plain: string;
  json: string;
}

/**
 * Input of a chat template. JSON texts are in OpenAI's shape, as llama.cpp's `common_chat` reads
 * them.
 */
export interface ChatInput {
  cancelled?: CancelFlag;
  /** JSON array of messages. */
  messages: string;
  /** JSON array of tools, or ''. */
  tools: string;
  toolChoice: 'auto' | 'required' | 'none';
  parallelToolCalls?: boolean;
  /** JSON schema text, or ''. */
  jsonSchema: string;
  /** GBNF, or ''. */
  grammar: string;
  addGenerationPrompt: boolean;
  /**
   * If the last message is the assistant's: the part that the answer continues. Absent or 'auto':
   * its content, or its reasoning if there is no content.
   */
  continuation?: 'auto' | 'content' | 'reasoning_content' | 'none';
  enableThinking: boolean;
  /** For tools whose argument `input` has a grammar. */
  customInputs?: CustomInput[];
  /** Values are JSON texts. */
  templateKwargs: Record<string, string>;
  /** Jinja source instead of the file's own, or ''. */
  template: string;
  /** How long the template may compute, in seconds of the thread's time; absent: 30. */
  templateSeconds?: number;
  /**
   * False: does not reuse what llama.cpp made for an earlier request of the same shape. Tests
   * compare the two.
   */
  remember?: boolean;
}

/** Input of `prepareChat`. */
export interface PrepareInput extends ChatInput {
  /**
   * The prompt must have fewer tokens than this. Messages that are too long are not rendered, and a
   * text that is too long is not tokenized.
   */
  contextSize: number;
  /** The strict schemas: tools by index, -1 for the answer's own. */
  strict: Int32Array;
  parseToolCalls: boolean;
}

/** The new part of an answer since the parser's last call. */
export interface ParsedDelta {
  content?: string;
  reasoning?: string;
  toolCalls?: { index: number; id?: string; name?: string; arguments?: string }[];
}

/** The whole answer as parsed. */
export interface ParsedMessage {
  content: string;
  reasoning: string;
  toolCalls: { id: string; name: string; arguments: string }[];
}

/** Synchronous: the input is one answer's text, the cost microseconds per token. */
export interface NativeParser {
  /**
   * Parses the whole text so far (`partial`: more may come) and returns the new part. Throws
   * `generation_failed` if the text cannot be parsed.
   */
  parse(text: string, partial: boolean): ParsedDelta;
  message(): ParsedMessage;
  /**
   * Frees the parser's data, which its ChatPrompt shares: no other parser can be created from that
   * prompt, and parse() throws `closed`. Idempotent.
   */
  close(): void;
}
