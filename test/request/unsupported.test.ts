import t from 'tap';
import { unsupported } from '#recua/request/unsupported.js';

t.test('a field that is not supported is refused with what to send instead, if there is something', async (t) => {
  t.match(unsupported('functions', [1]), { code: 'unsupported_parameter', param: 'functions', message: 'functions is not supported, got an array of 1; use tools.' });
  t.match(unsupported('conversation', 'x'), { message: 'conversation is not supported, got "x"; use previous_response_id.' });
  t.match(unsupported('lora', [1]), { message: 'lora is not supported, got an array of 1; leave it out.' });
  t.match(unsupported('constructor', 1), { message: /leave it out/ });
});
