// The actions on entities and tables. A page is there before it is loaded.

export { clearTable, deleteByFilter, deleteSelected, dropTable, exportEntities } from './bulk.js';
export { editCell } from './cell.js';
export { editEntity, insertEntity } from './entity.js';
export { importEntities } from './import.js';
