// The text of a PDF, by PDF.js in a worker of its own. Loaded with the first PDF that is attached.
// What the file brings of scripts, fonts and forms is never run: only its text is read.
import { GlobalWorkerOptions, PDFWorker, getDocument } from '../vendor/pdf.js';

const readerUrl = new URL('../vendor/pdf-worker.js', import.meta.url).href;
const tablesUrl = new URL('../vendor/cmaps/', import.meta.url).href;
/** One page may take so long. */
const mostMs = 30_000;

/**
 * The one address that may become a worker. Browsers without trusted types take the text.
 *
 * @type {{ createScriptURL(url: string): any }}
 */
const policy = /** @type {any} */ (globalThis).trustedTypes?.createPolicy('recua-pdf', { createScriptURL: () => readerUrl }) ?? { createScriptURL: () => readerUrl };
// Never taken, and PDF.js wants one.
GlobalWorkerOptions.workerSrc = readerUrl;

/**
 * Pages follow each other behind their numbers, as people cite them.
 *
 * @param {string} name
 * @param {ArrayBuffer} bytes is empty then
 * @param {(text: string) => void} told which page is read
 * @param {AbortSignal} signal
 * @returns {Promise<string>}
 */
export async function readPdf(name, bytes, told, signal) {
  const port = new Worker(policy.createScriptURL(readerUrl), { type: 'module' });
  const worker = PDFWorker.create({ port });
  /** @type {(error: Error) => void} */
  let fail = () => {};
  const failed = new Promise((_, reject) => { fail = reject; });
  port.addEventListener('error', () => fail(new Error(`${name} cannot be read: the reader of PDFs ended. Make text of it, for example by pdftotext, and attach that.`)));
  signal.addEventListener('abort', () => fail(signal.reason));
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  /** @template T @param {Promise<T>} step @returns {Promise<T>} */
  const within = (step) => {
    clearTimeout(timer);
    timer = setTimeout(() => fail(new Error(`${name} cannot be read: one of its pages takes over ${mostMs / 1_000} seconds.`)), mostMs);
    return /** @type {Promise<T>} */ (Promise.race([step, failed]));
  };
  try {
    const asked = getDocument({ data: new Uint8Array(bytes), worker, isEvalSupported: false, disableFontFace: true, useSystemFonts: false, cMapUrl: tablesUrl, cMapPacked: true, verbosity: 0 });
    const document = await within(asked.promise);
    const pages = [];
    for (let number = 1; number <= document.numPages; number++) {
      told(`page ${number} of ${document.numPages}`);
      const page = await within(document.getPage(number));
      pages.push(textOf((await within(page.getTextContent())).items));
      page.cleanup();
    }
    if (pages.every((text) => text === '')) {
      throw new Error(`${name} has no text: its pages are pictures. Have their text recognized first, for example by ocrmypdf.`);
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

/** @param {any[]} items with the marks of what is tagged */
function textOf(items) {
  return items.map(({ str = '', hasEOL = false }) => (hasEOL ? `${str}\n` : str)).join('').replace(/[ \t]+$/gm, '').replaceAll('\0', '').trim();
}

/** @param {string} name @param {any} thrown */
function explained(name, thrown) {
  if (thrown?.name === 'PasswordException') return new Error(`${name} is locked with a password. Save it without one, and attach that.`);
  if (['InvalidPDFException', 'FormatError', 'UnknownErrorException', 'MissingPDFException'].includes(thrown?.name)) return new Error(`${name} is damaged: ${thrown.message}`);
  return thrown;
}
