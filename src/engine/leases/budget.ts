// Memory arithmetic: what models need, what is available, what fits. Pure; used by
// engine/leases/leases.

/**
 * Bytes by place: `memory` is RAM, devices have their own names. A place not in the budget has no
 * bound. A group is a place with room for one model.
 */
export type Bytes = Readonly<Record<string, number>>;

/** The place of a group: at most one model of it has a process. */
export function groupPlace(group: string): string {
  return `group ${group}`;
}

export interface Budget {
  bytes: Bytes;
  /** Most loaded models; 0: as many as fit. */
  maxModels: number;
}

/** What is left of a budget; negative if a model takes more than expected. */
export interface Room {
  bytes: Bytes;
  models: number;
}

export function wholeRoom({ bytes, maxModels }: Budget): Room {
  return { bytes, models: maxModels === 0 ? Infinity : maxModels };
}

export function without(room: Room, need: Bytes): Room {
  return { bytes: add(room.bytes, need, -1), models: room.models - 1 };
}

export function withMore(room: Room, freed: Bytes): Room {
  return { bytes: add(room.bytes, freed, 1), models: room.models + 1 };
}

export function fits(need: Bytes, room: Room): boolean {
  return room.models >= 1 && Object.entries(need).every(([place, bytes]) => bytes <= (room.bytes[place] ?? Infinity));
}

/** The room, limited to these bytes in each place. */
export function atMostRoom(room: Room, bytes: Bytes): Room {
  return { ...room, bytes: atMost(room.bytes, { ...room, bytes }) };
}

/** Whether no place is overcommitted. */
export function isSound(room: Room): boolean {
  return Object.values(room.bytes).every((bytes) => bytes >= 0);
}

/** The need, limited to the room: a model measured above the whole room counts as all of it. */
export function atMost(need: Bytes, room: Room): Bytes {
  return Object.fromEntries(Object.entries(need).map(([place, bytes]) => [place, Math.min(bytes, room.bytes[place] ?? Infinity)]));
}

/**
 * The share of the missing memory that `freed` would supply: from 0 to 1, the least of all places.
 */
export function shareOfLack(need: Bytes, room: Room, freed: Bytes): number {
  const shares = Object.entries(need).map(([place, bytes]) => {
    const lack = bytes - (room.bytes[place] ?? Infinity);
    return lack > 0 ? Math.min(1, (freed[place] ?? 0) / lack) : 1;
  });
  return Math.min(1, ...shares);
}

/** Whether both use the same device; RAM does not count as one. */
export function shareDevice(one: Bytes, other: Bytes): boolean {
  return Object.keys(one).some((place) => place !== 'memory' && one[place]! > 0 && (other[place] ?? 0) > 0);
}

function add(bytes: Bytes, change: Bytes, sign: 1 | -1): Bytes {
  return Object.fromEntries(Object.entries(bytes).map(([place, there]) => [place, there + sign * (change[place] ?? 0)]));
}
