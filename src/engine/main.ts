// Entry of the engine process, forked by engine/client.
import { runHost } from './host.js';
import { openOwnNative } from './own-native.js';

runHost(openOwnNative, process);
