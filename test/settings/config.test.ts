import t from 'tap';
import { makeConfig } from '#recua/settings/config.js';
t.test('makeConfig() keeps defaults where nothing is given', async (t) => {
  t.equal(makeConfig({ port: undefined as never }).port, 8080);
});
