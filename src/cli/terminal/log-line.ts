// What a line of the log looks like: text for people, or JSON for programs that collect logs. Used
// by output, for stderr, and by log-file.
export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

export type LogFormat = 'text' | 'json';

/** What a line says in numbers and names; undefined is left out. Only JSON has it. */
export type LogFields = Readonly<Record<string, string | number | boolean | undefined>>;

/**
 * One JSON object in one line, with `time`, `level` and `msg` as pino and what reads its logs have
 * them.
 */
export function jsonLine(level: LogLevel, text: string, fields: LogFields = {}): string {
  // What is no control character for JSON may be one for a terminal.
  return JSON.stringify({ time: new Date().toISOString(), level, msg: text.trimEnd(), ...fields }).replace(/[\u007f-\u009f]/g, '\uFFFD');
}

/** Each line of the text with time and level in front. */
export function textLines(level: LogLevel, text: string): string[] {
  const start = `${new Date().toISOString()} ${level.padEnd(5)} `;
  // What a request or a file brings along must not look like another line, nor drive the terminal
  // that shows the log.
  return text.trimEnd().split('\n').map((line) => start + line.replace(/[\u0000-\u0008\u000a-\u001f\u007f-\u009f]/g, '\uFFFD'));
}
