// llama.cpp's log lines for several engines of one thread: the addon takes one function, and does
// not say which engine a line belongs to. Called by host and local.
import type { NativeAddon } from '../../addon/addon.js';
import type { Log } from '../api.js';

/** Warnings about settings that Recua chooses itself. */
const chosenHere = /model default pooling_type is|using full-size SWA cache|n_ctx is not divisible by n_seq_max/;

const listeners = new WeakMap<NativeAddon, Set<Log>>();

/** Passes every line to `log` until the returned function is called. */
export function listenToNative(addon: NativeAddon, log: Log): () => void {
  const all = listeners.get(addon) ?? new Set();
  listeners.set(addon, all);
  // Wrapped, since a set holds a function once, and two engines may pass the same one.
  const own: Log = (level, text) => log(level, text);
  all.add(own);
  if (all.size === 1) {
    addon.setLog((level, text) => {
      // llama.cpp logs a hundred lines per load as 'info', which are details here.
      for (const each of all) each(level === 'info' || chosenHere.test(text) ? 'debug' : (level as 'warn'), text);
    });
  }
  return () => {
    if (all.delete(own) && all.size === 0) addon.setLog(null);
  };
}
