// Arithmetic of memory: what models take, what there is, what would fit. Pure; used by
// engine/leases/leases.

/**
 * Bytes by place: `memory` is RAM, devices have their own names. A place that a budget does not
 * name has no bound. A group is a place that has room for one.
 */
export type Bytes = Readonly<Record<string, number>>;

/** The place of a group, of which at most one model has a process. */
export function groupPlace(group: string): string {
  return `group ${group}`;
}

export interface Budget {
  bytes: Bytes;
  /** Most models at once; 0: as many as fit. */
  maxModels: number;
}

/** What is left of a budget; may be below zero where a model took more than was foreseen. */
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

/** A room that is no larger than these bytes anywhere. */
export function atMostRoom(room: Room, bytes: Bytes): Room {
  return { ...room, bytes: atMost(room.bytes, { ...room, bytes }) };
}

/** No more is taken than there is. */
export function isSound(room: Room): boolean {
  return Object.values(room.bytes).every((bytes) => bytes >= 0);
}

/** A need that was corrected beyond what there is at all: such a model takes the whole. */
export function atMost(need: Bytes, room: Room): Bytes {
  return Object.fromEntries(Object.entries(need).map(([place, bytes]) => [place, Math.min(bytes, room.bytes[place] ?? Infinity)]));
}

/**
 * How much of what a need lacks would be there if `freed` were free: from 0 to 1, the least of all
 * places.
 */
export function shareOfLack(need: Bytes, room: Room, freed: Bytes): number {
  const shares = Object.entries(need).map(([place, bytes]) => {
    const lack = bytes - (room.bytes[place] ?? Infinity);
    return lack > 0 ? Math.min(1, (freed[place] ?? 0) / lack) : 1;
  });
  return Math.min(1, ...shares);
}

/** Whether both take something of the same device; RAM is none. */
export function shareDevice(one: Bytes, other: Bytes): boolean {
  return Object.keys(one).some((place) => place !== 'memory' && one[place]! > 0 && (other[place] ?? 0) > 0);
}

function add(bytes: Bytes, change: Bytes, sign: 1 | -1): Bytes {
  return Object.fromEntries(Object.entries(bytes).map(([place, there]) => [place, there + sign * (change[place] ?? 0)]));
}
