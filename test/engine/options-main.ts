// Entry of an engine process that loads nothing: its error holds the options it got. Forked by
// pool.test.
process.on('message', (message: { type: string; options?: { cacheRamMib: number } }) => {
  if (message.type !== 'load') return;
  process.send!({ type: 'failed', error: { code: 'model_unusable', message: `cacheRamMib is ${message.options!.cacheRamMib}` } }, () => process.exit());
});
