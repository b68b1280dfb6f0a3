// Forms with a file (POST /v1/files), as no client would send them: to the app on a socket, with
// boundaries, headers and lengths that do not fit. A refused upload leaves no bytes on the disk.
import fc from 'fast-check';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { errorTable } from '#recua/errors.js';
import { singleModel } from '#recua/engine/model-pool/single-model.js';
import { listen } from '#recua/server/listen.js';
import { makeConfig } from '#recua/settings/config.js';
import { served } from '../../server/app-under-test.js';
import { FakeEngine } from '../../server/fake-engine.js';
import { anyText, byteEdits, editedBytes, editedText, textEdits, unchanged, type ByteEdit, type TextEdit } from '../edits.js';
import { kind, type Outcome } from '../kind.js';

interface Case {
  type: string;
  parts: { head: string; body: string }[];
  textEdits: TextEdit[];
  byteEdits: ByteEdit[];
  /** What the header declares, besides the bytes that follow. */
  length: 'right' | 'chunked' | 'shorter' | 'longer' | 'none';
}

const type = fc.oneof({ weight: 8, arbitrary: fc.constant('multipart/form-data; boundary=b') }, fc.constantFrom('multipart/form-data', 'multipart/form-data; boundary=', 'multipart/form-data; boundary="b', 'multipart/form-data; boundary=bb', 'multipart/mixed; boundary=b', 'multipart/form-data; boundary=b; boundary=c', `multipart/form-data; boundary=${'b'.repeat(3_000)}`, 'application/json', 'Multipart/Form-Data;boundary=b', 'multipart/form-data; boundary=--'));
const head = fc.oneof({ weight: 6, arbitrary: fc.constantFrom('form-data; name="purpose"', 'form-data; name="file"; filename="f"', 'form-data; name="file"; filename="../../é💥.jsonl"') }, fc.constantFrom('form-data; name="expires_after[seconds]"', 'form-data; name="expires_after[anchor]"', 'form-data', 'form-data; name=""', 'form-data; name="__proto__"', 'form-data; name="file"', 'form-data; name="file"; filename=""', "form-data; name=\"file\"; filename*=UTF-8''%ff%00", 'form-data; name="file"; filename="\\', 'attachment; name="x"', `form-data; name="${'n'.repeat(200)}"`, 'form-data; name="file"; filename="a\u0000b"', ''), fc.string({ maxLength: 20 }).map((text) => `form-data; name="${text}"`));
const body = fc.oneof({ weight: 4, arbitrary: fc.constantFrom('batch', 'user_data', '{"a":1}\n', 'x') }, fc.constantFrom('', '--b', '\r\n--b', '\r\n--b--', 'x'.repeat(5_000), '3600', 'created_at', '-1'), anyText(30));
const usual = [{ head: 'form-data; name="purpose"', body: 'batch' }, { head: 'form-data; name="file"; filename="f"', body: '{}' }];

export default kind<Case>({
  cases: fc.record({
    type, parts: fc.oneof(fc.constant(usual), fc.array(fc.record({ head, body }), { maxLength: 4 }), fc.array(fc.record({ head, body }), { minLength: 15, maxLength: 30 })), textEdits: fc.oneof({ weight: 2, arbitrary: unchanged }, textEdits(['\r\n', '--b', '--', '\n', 'Content-Type: x\r\n', 'Content-Transfer-Encoding: base64\r\n', '"', ';', '\u0000', ':'])),
    byteEdits: fc.oneof({ weight: 2, arbitrary: unchanged }, byteEdits(2_000, 2)), length: fc.oneof({ weight: 6, arbitrary: fc.constant('right' as const) }, fc.constantFrom('chunked' as const, 'shorter' as const, 'longer' as const, 'none' as const)),
  }),
  few: 200, mostMs: 30_000, mostMib: 500,
  async open() {
    const keepIn = mkdtempSync(join(tmpdir(), 'recua-fuzz-uploads-'));
    const app = await listen({
      pool: singleModel(new FakeEngine(), served),
      config: makeConfig({ port: 0 }),
      log: () => undefined,
      keepIn,
    });
    const { port, hostname, host } = new URL(app.url);
    const files = (): string[] =>
      readdirSync(keepIn, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map(({ name }) => name);
    /** Waits for the answer, or leaves at once. */
    const exchange = (bytes: Buffer, goes: boolean): Promise<string> => new Promise((resolve, reject) => {
      const socket = connect(Number(port), hostname.replace(/[[\]]/g, ''));
      let text = '';
      socket.setEncoding('utf8').on('data', (piece: string) => text += piece).on('close', () => resolve(text)).on('error', (thrown: NodeJS.ErrnoException) => {
        // The server may close the connection during a write.
        if (thrown.code !== 'ECONNRESET' && thrown.code !== 'EPIPE') reject(thrown);
      });
      if (goes) socket.end(bytes);
      else socket.write(bytes);
    });
    const before = files().length;
    return {
      async take({ type: declared, parts, textEdits: changed, byteEdits: more, length }): Promise<Outcome> {
        const text = [...parts.map((one) => `--b\r\nContent-Disposition: ${one.head}\r\n\r\n${one.body}\r\n`), '--b--\r\n'].join('');
        const form = editedBytes(Buffer.from(editedText(text, changed)), more);
        const lengths = { right: `Content-Length: ${form.length}\r\n`, shorter: `Content-Length: ${Math.floor(form.length / 2)}\r\n`, longer: `Content-Length: ${form.length + 5}\r\n`, none: '', chunked: 'Transfer-Encoding: chunked\r\n' };
        const sent = length === 'chunked' ? Buffer.concat([Buffer.from(`${form.length.toString(16)}\r\n`), form, Buffer.from(form.length === 0 ? '\r\n' : '\r\n0\r\n\r\n')]) : form;
        const reply = await exchange(Buffer.concat([Buffer.from(`POST /v1/files HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\nContent-Type: ${declared}\r\n${lengths[length]}\r\n`), sent]), length === 'longer');
        // A client that ends midway gets no reply, or an error.
        const status = Number(/^HTTP\/1\.1 (\d+)/.exec(reply)?.[1] ?? 0);
        if (status === 0 && length !== 'longer') throw new Error('There is no answer.');
        if (status === 200) {
          const { id } = JSON.parse(reply.slice(reply.indexOf('\r\n\r\n') + 4).replace(/^[0-9a-f]+\r\n/, '').replace(/\r\n0\r\n\r\n$/, '')) as { id: string };
          const gone = await fetch(`${app.url}/v1/files/${id}`, { method: 'DELETE' });
          if (gone.status !== 200) throw new Error(`What was sent cannot be deleted: ${await gone.text()}`);
          await gone.text();
        } else if (status !== 0) {
          const code = /"code":"(\w+)"/.exec(reply)?.[1] ?? '';
          if (!Object.hasOwn(errorTable, code) || status >= 500) throw new Error(`The answer is ${reply.slice(0, 600)}`);
        }
        return status === 200 ? 'accepted' : 'refused';
      },
      async close() {
        // The upload of a vanished client is removed once the server notices.
        for (let tries = 0; files().length > before && tries < 100; tries++) await new Promise((resolve) => setTimeout(resolve, 50));
        if (files().length > before) throw new Error(`There are left: ${files().join(', ')}.`);
        await app.close(0);
        // The app may still write, as in ownFolder of app-under-test.
        rmSync(keepIn, { recursive: true, force: true, maxRetries: 5 });
      },
    };
  },
});
