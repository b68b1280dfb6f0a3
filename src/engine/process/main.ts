// Entry of the engine process, forked by engine/gateway/client.
import { runHost } from './host.js';
import { openAhead, openOwnNative } from './own-native.js';

runHost(openOwnNative, process);
// Whoever forked this may not know yet what it is to load: see engine/gateway/spare-process.
openAhead();
