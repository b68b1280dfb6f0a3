import t from 'tap';
import { chatError } from '#recua/engine/text/schema-loss.js';

t.test('messages that a template refuses are named by their field', async (t) => {
  const thrown = (index?: number) => Object.assign(new Error('while executing x\nError: Jinja Exception: no bad words'), { code: 'invalid_messages', ...(index === undefined ? {} : { index }) });
  t.match(chatError(thrown(3), { kind: 'none' }, []), { param: 'messages[3]', message: 'The chat template does not take messages[3]: no bad words.' });
  t.match(chatError(thrown(1), { kind: 'none' }, [], ['instructions', 'input[0]']), { param: 'input[0]' });
  t.match(chatError(thrown(), { kind: 'none' }, []), { param: 'messages', message: /these messages/ });
});
