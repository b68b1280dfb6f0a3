// Entry of the engine process, forked by engine/gateway/client.
import { runHost } from './host.js';
import { openAhead, openOwnNative } from './own-native.js';

runHost(openOwnNative);
// The parent may not know yet which model to load: see engine/gateway/spare-process.
openAhead();
