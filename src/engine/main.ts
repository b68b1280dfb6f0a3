// Entry of the engine process, forked by engine/client.
import { loadAddon } from '../addon.js';
import { runHost } from './host.js';

runHost(loadAddon, process);
