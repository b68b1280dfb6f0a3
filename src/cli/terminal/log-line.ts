// The format of a log line: text for people, or JSON for programs that collect logs. Used by
// output, for stderr, and by log-file.
export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

export type LogFormat = 'text' | 'json';

/** Structured fields of a line, only in JSON. Undefined fields are left out. */
export type LogFields = Readonly<Record<string, string | number | boolean | undefined>>;

/** What each line of a log file begins with, in either format. */
export const lineStart = /^\n?(?:\{"time":")?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z(?:","level":"(?:debug|info|warn|error)","msg":| (?:debug|info |warn |error) )/;

/** One JSON object on one line, with `time`, `level` and `msg` as in pino's logs. */
export function jsonLine(level: LogLevel, text: string, fields: LogFields = {}): string {
  // JSON does not escape these characters, but terminals obey them.
  return JSON.stringify({ time: new Date().toISOString(), level, msg: text.trimEnd(), ...fields }).replace(/[\u007f-\u009f]/g, '\uFFFD');
}

const levelWords: Readonly<Record<LogLevel, string>> = { debug: 'Debug', info: 'Info', warn: 'Warning', error: 'Error' };

/** For a person at a terminal, who knows what time it is. */
export function plainLine(level: LogLevel, text: string): string {
  return `${levelWords[level]}: ${text.trimEnd()}`;
}

/** Each line of the text, prefixed with time and level. */
export function textLines(level: LogLevel, text: string): string[] {
  const start = `${new Date().toISOString()} ${level.padEnd(5)} `;
  // Text from a request or a file must not look like another line, nor control the terminal that
  // shows the log.
  return text.trimEnd().split('\n').map((line) => start + line.replace(/[\u0000-\u0008\u000a-\u001f\u007f-\u009f]/g, '\uFFFD'));
}
