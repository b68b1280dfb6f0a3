// Entry of the engine process, forked by engine/client.
import { installedBackends, loadOptionalBackends } from '../native/backends.js';
import { openAddon } from '../native/load.js';
import { runHost } from './host.js';
import { wantsGpu } from './offload.js';

runHost(async (options) => {
  const opened = openAddon();
  // Without a GPU package this finds nothing and costs nothing.
  return { addon: opened.addon, backends: wantsGpu(options) ? await loadOptionalBackends(opened) : installedBackends(opened) };
}, process);
