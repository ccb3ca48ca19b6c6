// A small sample: moons by their planets, and readings of three weather stations.

/** Name, diameter in kilometres, distance in thousands of kilometres, days of an orbit, discovery, discoverer, and what is known. */
const MOONS = /** @type {const} */ ({
  Earth: [['Moon', 3474.8, 384.4, 27.322, null, '', { visits: ['Luna 2', 'Apollo 11'], landed: 12 }]],
  Mars: [
    ['Phobos', 22.5, 9.376, 0.319, 1877, 'Asaph Hall', { falls: true }],
    ['Deimos', 12.4, 23.463, 1.263, 1877, 'Asaph Hall', {}],
  ],
  Jupiter: [
    ['Io', 3643.2, 421.7, 1.769, 1610, 'Galileo Galilei', { volcanoes: 400, visits: ['Voyager 1', 'Galileo', 'Juno'] }],
    ['Europa', 3121.6, 671.1, 3.551, 1610, 'Galileo Galilei', { ocean: true, planned: { name: 'Europa Clipper', arrives: 2030 } }],
    ['Ganymede', 5268.2, 1070.4, 7.155, 1610, 'Galileo Galilei', { ocean: true, planned: { name: 'JUICE', arrives: 2031 } }],
    ['Callisto', 4820.6, 1882.7, 16.689, 1610, 'Galileo Galilei', { craters: 'everywhere' }],
    ['Amalthea', 167, 181.4, 0.498, 1892, 'E. E. Barnard', {}],
  ],
  Saturn: [
    ['Mimas', 396.4, 185.5, 0.942, 1789, 'William Herschel', { crater: { name: 'Herschel', km: 139 } }],
    ['Enceladus', 504.2, 237.9, 1.37, 1789, 'William Herschel', { ocean: true, geysers: 101, visits: ['Cassini'] }],
    ['Tethys', 1062.2, 294.6, 1.888, 1684, 'Giovanni Cassini', {}],
    ['Dione', 1122.8, 377.4, 2.737, 1684, 'Giovanni Cassini', {}],
    ['Rhea', 1527.6, 527.1, 4.518, 1672, 'Giovanni Cassini', {}],
    ['Titan', 5149.5, 1221.9, 15.945, 1655, 'Christiaan Huygens', { air: { nitrogen: 0.95, methane: 0.05 }, visits: ['Huygens'] }],
    ['Iapetus', 1468.6, 3560.8, 79.33, 1671, 'Giovanni Cassini', { sides: ['dark', 'bright'] }],
  ],
  Uranus: [
    ['Miranda', 471.6, 129.9, 1.413, 1948, 'Gerard Kuiper', {}],
    ['Ariel', 1157.8, 190.9, 2.52, 1851, 'William Lassell', {}],
    ['Umbriel', 1169.4, 266, 4.144, 1851, 'William Lassell', {}],
    ['Titania', 1576.8, 436.3, 8.706, 1787, 'William Herschel', {}],
    ['Oberon', 1522.8, 583.5, 13.463, 1787, 'William Herschel', {}],
  ],
  Neptune: [
    ['Triton', 2705.2, 354.8, 5.877, 1846, 'William Lassell', { retrograde: true, visits: ['Voyager 2'] }],
    ['Proteus', 420, 117.6, 1.122, 1989, 'Voyager 2', {}],
  ],
  Pluto: [['Charon', 1212, 19.596, 6.387, 1978, 'James Christy', { visits: ['New Horizons'] }]],
});

const moons = Object.entries(MOONS).flatMap(([planet, list]) => list.map(([name, diameter, distance, orbit, year, by, facts]) => ({
  PartitionKey: planet,
  RowKey: name,
  'DiameterKm@odata.type': 'Edm.Double',
  DiameterKm: String(diameter),
  DistanceKm: Math.round(distance * 1000),
  'OrbitDays@odata.type': 'Edm.Double',
  OrbitDays: String(orbit),
  ...(year ? { Year: year, Discoverer: by } : {}),
  HasOcean: 'ocean' in facts,
  Facts: JSON.stringify(facts),
})));

const STATIONS = /** @type {const} */ ([['bergen', 7.5, 0.8], ['oslo', 3.5, 0.2], ['tromso', -2, 0.4]]);

const readings = STATIONS.flatMap(([station, mean, wet]) => Array.from({ length: 96 }, (_, hour) => {
  const moment = new Date(Date.UTC(2026, 0, 1, hour)).toISOString();
  const degrees = Math.round(10 * (mean + 4 * Math.sin((hour - 9) / 24 * 2 * Math.PI) + 2 * Math.sin(hour * 1.7))) / 10;
  return {
    PartitionKey: station,
    RowKey: moment.slice(0, 13),
    'At@odata.type': 'Edm.DateTime',
    At: moment,
    'Degrees@odata.type': 'Edm.Double',
    Degrees: String(degrees),
    Humidity: Math.round(60 + 30 * wet + 9 * Math.cos(hour * 0.9)),
    Rain: Math.sin(hour * 1.3) < wet - 0.3,
  };
}));

export const SAMPLE = /** @type {const} */ ([
  { table: 'Moons', entities: moons, index: 'Discoverer' },
  { table: 'Readings', entities: readings, index: 'Degrees' },
]);
