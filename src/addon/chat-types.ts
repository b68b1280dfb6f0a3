// The native addon's types for chats: messages in, a prompt and a parser out. A part of addon.ts,
// which gives them to all others.

/** One number, 0 until nobody waits for the work that was given it. */
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
 * What a chat template made of messages. All but the prompt is to look at; a sampler and a parser
 * get it by `shape`.
 */
export interface ChatPrompt {
  /** The rendered prompt text. */
  prompt: string;
  /**
   * Bytes of the prompt at which no control token begins, though its text may be there: they stem
   * from messages. For `tokenize`.
   */
  literal: Int32Array;
  /** Opaque, for `createParser` and `createSampler`: how the answer is constrained and parsed. */
  shape: unknown;
  /** GBNF, or '' */
  grammar: string;
  grammarKind: 'user' | 'schema' | 'tools';
  grammarLazy: boolean;
  /** JSON: what a lazy grammar waits for. */
  triggers: string;
  /** Texts of control tokens that the parser sees. */
  preserved: string[];
  /** Where a thinking block begins, and how it may end. */
  thinking: string[];
  generationPrompt: string;
  /** What the grammar leaves out of the schema and of the tools' parameters. */
  unenforced: Unenforced[];
  /** Strings that end the answer beside the request's own. */
  stops: string[];
  /** True if the last message is the assistant's: the answer continues it. */
  continuation: boolean;
}

/** What the text of a custom tool keeps to. Rules of GBNF, one to a line; `root` is the first. */
export interface CustomInput {
  /** Index of the tool. */
  tool: number;
  root: string;
  /** Of the text as it is, and as it stands between the quotes of a JSON string. */
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
   * Of a last message that is the assistant's: what of it is gone on with. Absent is 'auto', which
   * is its content, or what it thought where there is only that.
   */
  continuation?: 'auto' | 'content' | 'reasoning_content' | 'none';
  enableThinking: boolean;
  /** Of tools whose argument `input` keeps to rules. */
  customInputs?: CustomInput[];
  /** Values are JSON texts. */
  templateKwargs: Record<string, string>;
  /** Jinja source instead of the file's own, or ''. */
  template: string;
  /**
   * False asks llama.cpp for everything anew, instead of using what was made for a request of the
   * same shape; tests compare the two.
   */
  remember?: boolean;
}

/** Input of `prepareChat`. */
export interface PrepareInput extends ChatInput {
  /**
   * The prompt has to have fewer tokens. Messages that cannot are not rendered, and a text that
   * cannot is not read.
   */
  contextSize: number;
  /**
   * The schemas of which everything must be enforced: tools by their index, the answer's own as -1.
   */
  strict: Int32Array;
  parseToolCalls: boolean;
}

/** What of an answer is new since the last call of a parser. */
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

/** Synchronous: a parser's input is one answer's text, its cost microseconds per token. */
export interface NativeParser {
  /**
   * Feeds the whole text so far; `partial` while more may come. Returns what is new. Throws
   * `generation_failed` if the text can't be parsed.
   */
  parse(text: string, partial: boolean): ParsedDelta;
  message(): ParsedMessage;
  /**
   * Lets go of what it parses by, and the prompt of it, too; parse() then throws `closed`.
   * Idempotent.
   */
  close(): void;
}
