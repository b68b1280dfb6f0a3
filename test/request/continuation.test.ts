import t from 'tap';
import type { ChatMessage } from '#recua/engine/protocol.js';
import { checkAnswers, readContinuation } from '#recua/request/continuation.js';
import { Fields } from '#recua/request/fields.js';

const user: ChatMessage = { role: 'user', content: 'x' };
const assistant: ChatMessage = { role: 'assistant', content: 'y' };
const calling: ChatMessage = { role: 'assistant', content: null, tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } }] };
const read = (body: object, messages: ChatMessage[]) => readContinuation(Fields.of(body), messages);

t.test('a last message of the assistant begins the answer, whatever comes before it', async (t) => {
  t.same(read({}, [user]), {});
  t.same(read({}, [user, assistant]), {}, 'which the engine goes on with');
  t.same(read({ continue_final_message: true }, [user, assistant]), { continuation: 'auto' });
  t.same(read({ continue_final_message: 'reasoning_content', add_generation_prompt: false }, [user, assistant]), { continuation: 'reasoning_content' });
  t.same(read({ add_generation_prompt: false }, [user]), { addGenerationPrompt: false });
  t.same(read({ add_generation_prompt: true, continue_final_message: false }, [user, assistant]), { continuation: 'none' }, 'as vLLM’s clients say it');
  t.same(read({ add_generation_prompt: true }, [user, assistant]), {}, 'as llama-server has it');
});

t.test('an impossible continuation names its field', async (t) => {
  t.throws(() => read({ continue_final_message: true }, [user]), { code: 'invalid_value', param: 'messages[0].role' });
  t.throws(() => read({ continue_final_message: true }, [user, calling]), { code: 'invalid_value', param: 'messages[1].tool_calls' });
  t.throws(() => read({ continue_final_message: true, add_generation_prompt: true }, [user, assistant]), { code: 'invalid_value', param: 'add_generation_prompt' });
  t.throws(() => read({ continue_final_message: 'all' }, [user, assistant]), { code: 'invalid_type', param: 'continue_final_message' });
});

t.test('two answers at the end are refused, since either could be continued', async (t) => {
  t.throws(() => read({}, [user, assistant, assistant]), { code: 'invalid_value', param: 'messages[2]' });
  t.throws(() => checkAnswers([user, assistant, assistant], ['input[0]', 'input[1]', 'input[4]']), { code: 'invalid_value', param: 'input[4]' });
  t.same(read({ continue_final_message: true }, [user, assistant, assistant]), { continuation: 'auto' }, 'unless it is said');
  t.same(read({}, [user, assistant, calling]), {}, 'calls wait for their results');
  t.same(read({}, [user, assistant, assistant, user]), {});
});
