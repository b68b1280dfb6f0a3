// Tools that an answer may call, as requests bring them to the engine.

export interface Tool {
  type: 'function';
  /** `strict`: a keyword of the parameters that cannot be enforced is an error, and no warning. */
  function: { name: string; description?: string; parameters?: object; strict?: boolean };
}

/** What errors and warnings must know of a tool. */
export interface ToolSource {
  name: string;
  strict: boolean;
  /** The request's field that the parameters come from. */
  param: string;
  /** Of a custom tool: what its only argument, the text `input`, keeps to. */
  input?: InputRules;
}

/** Rules of GBNF, one to a line; the first is called `root`. */
export interface InputRules {
  root: string;
  /** Of the text as it is. */
  plain: string;
  /** Of the same as it stands between the quotes of a JSON string. */
  json: string;
}
