// Extracts the text of a PDF with PDF.js, in a worker. Loaded when the first PDF is attached. Only
// the text is read; scripts, fonts and forms in the file are never run.
import { GlobalWorkerOptions, PDFWorker, getDocument } from '../vendor/pdf.js';

const readerUrl = new URL('../vendor/pdf-worker.js', import.meta.url).href;
const tablesUrl = new URL('../vendor/cmaps/', import.meta.url).href;
/** Time limit for each step, such as one page. */
const mostMs = 30_000;

/**
 * Allows one worker script only. Browsers without trusted types take the address as a string.
 *
 * @type {{ createScriptURL(url: string): any }}
 */
const policy = /** @type {any} */ (globalThis).trustedTypes?.createPolicy('recua-pdf', { createScriptURL: () => readerUrl }) ?? { createScriptURL: () => readerUrl };
// PDF.js insists on it, but never uses it, since it gets a worker.
GlobalWorkerOptions.workerSrc = readerUrl;

/**
 * The text of all pages, each under a line `[page N]`, so that the model can cite pages.
 *
 * @param {string} name
 * @param {ArrayBuffer} bytes the buffer is detached afterwards
 * @param {(text: string) => void} told gets the page being read
 * @param {AbortSignal} signal
 * @returns {Promise<string>}
 */
export async function readPdf(name, bytes, told, signal) {
  const port = new Worker(policy.createScriptURL(readerUrl), { type: 'module' });
  const worker = PDFWorker.create({ port });
  /** @type {(error: Error) => void} */
  let fail = () => {};
  const failed = new Promise((_, reject) => { fail = reject; });
  port.addEventListener('error', () => fail(new Error(`${name} cannot be read: the PDF reader stopped. Convert it to text, for example with pdftotext, and attach that.`)));
  signal.addEventListener('abort', () => fail(signal.reason));
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  /** @template T @param {Promise<T>} step @returns {Promise<T>} */
  const within = (step) => {
    clearTimeout(timer);
    timer = setTimeout(() => fail(new Error(`${name} cannot be read: one of its pages takes more than ${mostMs / 1_000} seconds.`)), mostMs);
    return /** @type {Promise<T>} */ (Promise.race([step, failed]));
  };
  try {
    const asked = getDocument({
      data: new Uint8Array(bytes),
      worker,
      isEvalSupported: false,
      disableFontFace: true,
      useSystemFonts: false,
      cMapUrl: tablesUrl,
      cMapPacked: true,
      verbosity: 0,
    });
    const document = await within(asked.promise);
    const pages = [];
    for (let number = 1; number <= document.numPages; number++) {
      told(`page ${number} of ${document.numPages}`);
      const page = await within(document.getPage(number));
      pages.push(textOf((await within(page.getTextContent())).items));
      page.cleanup();
    }
    if (pages.every((text) => text === '')) {
      throw new Error(`${name} has no text: its pages are images. Run OCR on it first, for example with ocrmypdf.`);
    }
    return pages.map((text, at) => `[page ${at + 1}]\n${text}\n`).join('\n');
  } catch (thrown) {
    throw explained(name, thrown);
  } finally {
    clearTimeout(timer);
    worker.destroy();
    port.terminate();
  }
}

/** @param {any[]} items including markers of tagged content, which have no text */
function textOf(items) {
  return items.map(({ str = '', hasEOL = false }) => (hasEOL ? `${str}\n` : str)).join('').replace(/[ \t]+$/gm, '').replaceAll('\0', '').trim();
}

/** @param {string} name @param {any} thrown */
function explained(name, thrown) {
  if (thrown?.name === 'PasswordException') return new Error(`${name} is locked with a password. Save a copy without the password and attach that.`);
  if (['InvalidPDFException', 'FormatError', 'UnknownErrorException', 'MissingPDFException'].includes(thrown?.name)) return new Error(`${name} is damaged: ${thrown.message}`);
  return thrown;
}
