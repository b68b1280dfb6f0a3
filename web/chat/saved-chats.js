// Chats on the server, in the folder where `recua chat` saves its own. Writes send the ETag of the
// last read, so that neither side overwrites the other's turns.
import { Emitter } from '../app/emitter.js';
import { models } from '../app/models.js';
import { json, ServerError } from '../app/server.js';
import { inBrowser } from '../app/stored.js';
import { fileNameOf, merged, sessionOf } from './saved-mapping.js';

/** @typedef {import('./tree.js').Conversation} Conversation */
/** @typedef {import('./tree.js').Message} Message */
/** @typedef {{ name: string, etag: string, open: boolean, session: Record<string, any> }} Answered */

/**
 * For a write and its reply. Other tabs wait for it: see ServerFiles. A new file has no limit, as
 * it would come twice.
 */
const mostWriteMs = 60_000;

/** @param {Message} message */
const hasTools = ({ role, toolCalls = [] }) => role === 'tool' || toolCalls.length > 0;

/** @param {string} name */
const pathOf = (name) => `sessions/${encodeURIComponent(name)}`;

/** Without an ETag (see kept-chats) it matches nothing. @param {{ etag: string }} saved */
const unchanged = ({ etag }) => ({ 'If-Match': `"${etag || 'unread'}"` });

/** @param {Answered} answered @param {string} model */
function remembered({ name, etag, session }, model) {
  const document = { ...session };
  delete document['messages'];
  return { name, etag, document, model };
}

/** The server's name for a model that `recua chat` saved. @param {string} name */
export function servedModel(name) {
  const { chatting } = models;
  const usual = inBrowser.get('model');
  const same = chatting.find(({ id, aliases = [] }) => id === name || aliases.includes(name));
  return (same ?? chatting.find(({ id }) => id === usual) ?? chatting[0])?.id ?? name;
}

class SavedChats extends Emitter {
  /** Whether the server shows these chats to this browser. */
  isServed = false;
  /** @type {{ name: string, updated_ms: number, error?: string }[]} */
  list = [];

  async refresh() {
    try {
      const { sessions } = await json('ui/server', { quietly: true });
      this.list = sessions ? (await json('sessions', { quietly: true })).data : [];
      this.isServed = sessions;
    } catch {
      this.isServed = false;
      this.list = [];
    }
    this.changed();
  }

  /** The names of the chats that contain this text. @param {string} text */
  async namesSaying(text) {
    /** @type {{ data: { name: string }[] }} */
    const { data } = this.isServed ? await json(`sessions?search=${encodeURIComponent(text)}`, { quietly: true }) : { data: [] };
    return new Set(data.map(({ name }) => name));
  }

  /**
   * Reads the file. Returns undefined if it has not changed since the last read.
   * @param {string} name @param {Conversation} conversation
   * @param {() => Promise<Message[]>} messagesOf called once the file is read
   * @param {(name: string) => string} modelOf the server's name for the model in the file
   */
  async read(name, conversation, messagesOf, modelOf) {
    /** @type {Answered} */
    const answered = await json(pathOf(name));
    if (answered.etag === conversation.saved?.etag) return undefined;
    const model = modelOf(answered.session['model']);
    return {
      model,
      saved: remembered(answered, model),
      title: answered.name,
      ...merged(answered.session, conversation, await messagesOf()),
    };
  }

  /**
   * Writes the branch to the file. Returns the messages it wrote.
   * @param {Conversation} conversation @param {Message[]} path
   * @param {string} title of a new file; '' for the server's choice
   */
  async write(conversation, path, title = '') {
    const { saved } = conversation;
    const made = sessionOf(conversation, path);
    if (!made) {
      const what = path.some(hasTools) ? 'tool calls' : 'a message without an answer, except the last';
      throw new Error(saved ? `The chats of recua chat cannot hold ${what}.` : `This chat stays in the browser: recua chat cannot save ${what}.`);
    }
    const name = fileNameOf(title, new Set(this.list.map((one) => one.name)));
    /** @type {Answered} */
    const answered = saved
      ? await json(pathOf(saved.name), { method: 'PUT', body: { session: made.session }, headers: unchanged(saved), mostMs: mostWriteMs })
      : await json('sessions', { body: { session: made.session, ...(name === '' ? {} : { name }) } });
    conversation.saved = remembered(answered, conversation.model);
    made.written.forEach((message, at) => { message.saved = answered.session['messages'][at]; });
    void this.refresh();
    return made.written;
  }

  /** @param {Conversation} conversation @param {string} name */
  async rename(conversation, name) {
    const { saved } = conversation;
    if (!saved) return;
    const answered = await json(pathOf(saved.name), { method: 'PUT', body: { name }, headers: unchanged(saved), mostMs: mostWriteMs });
    conversation.saved = remembered(answered, saved.model);
    void this.refresh();
  }

  /** Deletes the file, if it is still there. @param {Conversation} conversation */
  async remove({ saved }) {
    if (!saved) return;
    await json(pathOf(saved.name), { method: 'DELETE', headers: unchanged(saved), mostMs: mostWriteMs }).catch((thrown) => {
      if (!(thrown instanceof ServerError) || thrown.code !== 'session_not_found') throw thrown;
    });
    void this.refresh();
  }
}

export const savedChats = new SavedChats();
