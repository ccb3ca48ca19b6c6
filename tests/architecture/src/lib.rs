//! What keeps the code in order, checked by reading it: which module may import which (`imports`), and that the paths,
//! sections and patches that others point to exist (`references`), what stands in one storey only (`storeys`), and that docstrings
//! begin alike (`docstrings`). Nothing here needs PostgreSQL.

pub mod docstrings;
pub mod imports;
pub mod modules;
pub mod references;
pub mod storeys;
pub mod workspace;
