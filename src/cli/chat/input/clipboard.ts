// Copies text to the clipboard: the system's if there is one, else the terminal's through the
// escape sequence OSC 52, which also works over ssh.

/** A clipboard tool without a display may hang. */
const patienceMs = 2000;
/** Terminals drop longer sequences. */
const longestSequence = 74_994;

/** Returns which clipboard has the text, or undefined if none. */
export async function copy(text: string, writeToTerminal: ((sequence: string) => void) | undefined): Promise<'system' | 'terminal' | undefined> {
  // Loaded on demand: it pulls in a library for running processes.
  if (hasDisplay() && await within(import('clipboardy').then(({ default: clipboard }) => clipboard.write(text)))) return 'system';
  const encoded = Buffer.from(text).toString('base64');
  if (!writeToTerminal || encoded.length > longestSequence) return undefined;
  writeToTerminal(`\x1b]52;c;${encoded}\x07`);
  return 'terminal';
}

/** On all systems except macOS and Windows, a clipboard needs a display server. */
function hasDisplay(): boolean {
  return process.platform === 'darwin' || process.platform === 'win32' || Boolean(process.env['DISPLAY'] ?? process.env['WAYLAND_DISPLAY'] ?? process.env['TERMUX_VERSION']);
}

async function within(work: Promise<void>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => (timer = setTimeout(() => resolve(false), patienceMs)));
  try {
    return await Promise.race([work.then(() => true, () => false), late]);
  } finally {
    clearTimeout(timer);
  }
}
