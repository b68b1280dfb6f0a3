// The service files for a server that the system starts: a systemd unit or a launchd agent. Pure
// text; used by serve/install.
import { boundLine, type Bound } from './sandbox.js';

export interface Service {
  /** Program and arguments. */
  command: readonly string[];
  /** Working directory. */
  folder: string;
  variables: Readonly<Record<string, string>>;
  /** Maximum time that a stop may take. */
  stopSeconds: number;
  /** For systemd only. */
  bounds: readonly Bound[];
}

/** For one user, by `systemctl --user`. */
export function systemdUnit({ command, folder, variables, stopSeconds, bounds }: Service): string {
  return `# Written by recua serve install; recua serve uninstall removes it.
[Unit]
Description=Recua, local models over HTTP

[Service]
ExecStart=${command.map((word) => systemdWord(word, true)).join(' ')}
WorkingDirectory=${folder.replaceAll('%', '%%')}
${Object.entries(variables).map(([name, value]) => `Environment=${systemdWord(`${name}=${value}`, false)}\n`).join('')}Restart=always
RestartSec=2
TimeoutStopSec=${stopSeconds}
KillMode=mixed
${bounds.map((bound) => `${boundLine(bound).replaceAll('%', '%%')}\n`).join('')}
[Install]
WantedBy=default.target
`;
}

/** Percent signs begin specifiers; in commands, dollar signs begin variables. */
function systemdWord(word: string, isCommand: boolean): string {
  const escaped = word.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('%', '%%').replaceAll('\n', '\\n').replaceAll('\r', '\\r');
  return `"${isCommand ? escaped.replaceAll('$', () => '$$') : escaped}"`;
}

/** For one user, by `launchctl`. */
export function launchdAgent({ command, folder, variables, stopSeconds }: Service, label: string, logPath: string): string {
  const text = (value: string): string => `<string>${value.replace(/[&<>]/g, (one) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;' })[one]!)}</string>`;
  const set = Object.entries(variables).map(([name, value]) => `    <key>${name}</key>\n    ${text(value)}\n`).join('');
  return `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<!-- Written by recua serve install; recua serve uninstall removes it. -->
<plist version="1.0">
<dict>
  <key>Label</key>
  ${text(label)}
  <key>ProgramArguments</key>
  <array>
${command.map((word) => `    ${text(word)}\n`).join('')}  </array>
  <key>WorkingDirectory</key>
  ${text(folder)}
  <key>EnvironmentVariables</key>
  <dict>
${set}  </dict>
  <key>RunAtLoad</key>
  <true/>
  <key>KeepAlive</key>
  <true/>
  <key>ExitTimeOut</key>
  <integer>${stopSeconds}</integer>
  <key>StandardErrorPath</key>
  ${text(logPath)}
</dict>
</plist>
`;
}
