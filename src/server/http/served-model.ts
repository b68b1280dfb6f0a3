// The names of the model that a server has. A file of its own because the library's declarations name it, and whoever compiles
// against those need not have Express's types.

/** The names and date of the one model this server has. */
export interface ServedModel {
  /** The canonical name: every answer carries it, whichever name was asked for. */
  id: string;
  /** Other names it is found by; `default` always is one. */
  aliases: readonly string[];
  /** Names that requests may use and answers never tell. */
  unlisted?: readonly string[];
  /** The file's time, in seconds since 1970. */
  createdSeconds: number;
}
