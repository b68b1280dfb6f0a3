// Makes a flag that cancels work of the addon: for requests and questions, on the JS thread.
import type { CancelFlag } from '../../addon/addon.js';

export function newCancelFlag(): CancelFlag {
  return new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
}
