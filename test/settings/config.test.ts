import t from 'tap';
import { makeConfig } from '#recua/settings/config.js';
t.test('makeConfig() keeps the defaults if nothing is given', async (t) => {
  t.equal(makeConfig({ port: undefined as never }).port, 8080);
});
