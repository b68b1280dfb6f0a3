// Tools that an answer may call, as requests pass them to the engine.

export interface Tool {
  type: 'function';
  /** `strict`: a keyword of the parameters that cannot be enforced is an error, not a warning. */
  function: { name: string; description?: string; parameters?: object; strict?: boolean };
}

/** What errors and warnings need to know of a tool. */
export interface ToolSource {
  name: string;
  strict: boolean;
  /** The request's field that the parameters come from. */
  param: string;
  /** Of a custom tool: the grammar of its only argument, the text `input`. */
  input?: InputRules;
}

/** GBNF rules, one per line; the first is called `root`. */
export interface InputRules {
  root: string;
  /** For the text itself. */
  plain: string;
  /** For the same text inside a JSON string, between the quotes. */
  json: string;
}
