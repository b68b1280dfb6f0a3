// The commands of a documented shell block, in the syntax that the docs use: comments, quotes,
// continued lines, pipes, variables before a command.

export interface ShellCommand {
  words: string[];
  /** Variables that are set for this command alone. */
  variables: string[];
  /** The line of the page, with continuations joined. */
  line: string;
}

export function shellCommands(block: string): ShellCommand[] {
  return block.replace(/\\\n\s*/g, '').split('\n').flatMap((line) => {
    const commands: ShellCommand[] = [];
    let words: string[] = [];
    const end = () => {
      const first = words.findIndex((word) => !/^[A-Z_]+=/.test(word));
      const variables = words.slice(0, first < 0 ? words.length : first).map((word) => word.replace(/=.*/s, ''));
      if (words.length > 0) commands.push({ words: first < 0 ? [] : words.slice(first), variables, line });
      words = [];
    };
    for (const [whole, separator, comment] of line.matchAll(/\s*(?:(&&|\|\||[|;&])|(#.*)|((?:'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^\s|;&'"\\])+))/gs)) {
      if (comment !== undefined) break;
      if (separator === undefined) words.push(whole.trimStart().replace(/'([^']*)'|"((?:\\.|[^"\\])*)"|\\(.)/gs, (_all, single?: string, double?: string, escaped?: string) => single ?? double?.replace(/\\(["\\$`])/g, '$1') ?? escaped ?? ''));
      else end();
    }
    end();
    return commands;
  });
}
