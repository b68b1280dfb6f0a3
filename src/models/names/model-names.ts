// What a model file's name says: the stem, the part of a split model, the quantization, and whether
// the file only accompanies models. Pure; used for the store and for listings of the hub.

const partEnding = /-(\d{5})-of-(\d{5})$/;

/** A file's name without folder, extension and part: what people call the model. */
export function stemOf(file: string): string {
  return pathStemOf(baseOf(file));
}

/** The same, with the folder. */
export function pathStemOf(file: string): string {
  return file.replace(/\.gguf$/i, '').replace(partEnding, '');
}

/** Equal for all parts of one model and for no other file of the repository. */
export function modelKey(file: string): string {
  return file.replace(/-\d{5}(-of-\d{5}\.gguf)$/i, '$1');
}

/** The part of a split model that a file's name states; `1 of 1` for a whole one. */
export function partOf(file: string): { part: number; total: number } {
  const found = partEnding.exec(baseOf(file).replace(/\.gguf$/i, ''));
  return found ? { part: Number(found[1]), total: Number(found[2]) } : { part: 1, total: 1 };
}

/** The name of another part of the same split model. */
export function partName(file: string, part: number): string {
  return file.replace(/-\d{5}(-of-\d{5}\.gguf)$/i, `-${String(part).padStart(5, '0')}$1`);
}

export function isGgufFile(file: string): boolean {
  return /\.gguf$/i.test(file);
}

export type GgufKind = 'model' | 'projector' | 'mtp' | 'imatrix';

/**
 * A GGUF file's purpose, from its name: a model, the projector of a multimodal model, a draft head,
 * or quantizers' statistics.
 */
export function kindOf(file: string): GgufKind {
  const base = baseOf(file).replace(/\.gguf$/i, '');
  if (/(^|[-_.])mm-?proj([-_.]|$)/i.test(base)) return 'projector';
  // A quantization names a model that was made by means of such statistics. Those above seven bits
  // need none; the statistics themselves are often made from such a model.
  if (/(^|[-_.])imatrix([-_.]|$)/i.test(base)) return /^(?:B?F\d+|Q8_.*)?$/.test(quantizationIn(base)) ? 'imatrix' : 'model';
  return /(^|[-_.])mtp([-_.]|$)/i.test(base) ? 'mtp' : 'model';
}

/**
 * What each file of a repository is. If none is a model by its name, that of a draft head or of
 * statistics is the models' own name.
 */
export function kindsAmong(files: Iterable<string>): (file: string) => GgufKind {
  const hasModel = [...files].some((file) => isGgufFile(file) && kindOf(file) === 'model');
  return (file) => {
    const kind = kindOf(file);
    return kind === 'projector' || hasModel ? kind : 'model';
  };
}

/**
 * Files that accompany a model and cannot be run, as they are in the store: whatever else is there,
 * a file that may be a model counts as one.
 */
export function isSidecar(file: string): boolean {
  return kindOf(file) === 'projector' || /^imatrix([-_.]|$)/i.test(stemOf(file));
}

const quantization = new RegExp(`(?:^|[-_. ])((?:UD-)?(?:${[
  'IQ[1-6]_(?:XXS|XS|NL|KSS|KS|KT|KL|K|S|M|L)',
  'Q[1-8]_K(?:_(?:XXL|XL|XS|L|M|S|P))?',
  'Q[1-8]_[01](?:_[48]_[48]|_[48]_[48]_[48])?',
  'TQ[12]_0',
  'MXFP4(?:_MOE)?',
  'NVFP4',
  'BF16|FP?16|FP?32|FP8',
].join('|')})(?:_R[48])?)(?=$|[-_. ])`, 'gi');

/**
 * The quantization in a file's name, else in its folder's (`Q4_K_M/…`), uppercase; '' if neither
 * states one.
 */
export function quantizationOfName(file: string): string {
  for (const name of [stemOf(file), file.split('/').at(-2) ?? '']) {
    const found = quantizationIn(name);
    if (found !== '') return found;
  }
  return '';
}

function quantizationIn(name: string): string {
  // Take the last: `Model-F16-Q8_0` was made from F16 and holds Q8_0.
  const found = [...name.matchAll(quantization)].at(-1)?.[1] ?? '';
  return found.toUpperCase().replace(/^FP(?=16|32)/, 'F');
}

/** Whether a typed quantization is exactly a file's, ignoring case. */
export function isQuantization(typed: string, stated: string): boolean {
  return stated !== '' && typed.toUpperCase().replace(/^FP(?=16|32)/, 'F') === stated;
}

/** The same, but the mark of a dynamic quantization may be missing. */
export function sameQuantization(typed: string, stated: string): boolean {
  return isQuantization(typed, stated) || isQuantization(typed, stated.replace(/^UD-/, ''));
}

function baseOf(file: string): string {
  return file.slice(Math.max(file.lastIndexOf('/'), file.lastIndexOf('\\')) + 1);
}
