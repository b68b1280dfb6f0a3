// Puts text on the clipboard: the system's where there is one, else the terminal's own by the
// escape sequence OSC 52, which works over ssh too.

/** A clipboard tool without a display may hang. */
const patienceMs = 2000;
/** Terminals drop longer ones. */
const longestSequence = 74_994;

/** Returns how the text got there, or undefined if it did not. */
export async function copy(text: string, writeToTerminal: ((sequence: string) => void) | undefined): Promise<'system' | 'terminal' | undefined> {
  // Loaded when first needed: it brings a library of processes with it.
  if (hasDisplay() && await within(import('clipboardy').then(({ default: clipboard }) => clipboard.write(text)))) return 'system';
  const encoded = Buffer.from(text).toString('base64');
  if (!writeToTerminal || encoded.length > longestSequence) return undefined;
  writeToTerminal(`\x1b]52;c;${encoded}\x07`);
  return 'terminal';
}

/** Elsewhere than on these two systems a clipboard needs a display server. */
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
