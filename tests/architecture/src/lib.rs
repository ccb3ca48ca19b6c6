//! What keeps the code in order, checked by reading it: which module may import which (`imports`), and that the paths,
//! sections and patches that others point to exist (`references`), what stands in one storey only (`storeys`), that docstrings
//! begin alike (`docstrings`), and that the house does not grow unseen (`ceilings`). Nothing here needs PostgreSQL.

pub mod ceilings;
pub mod docstrings;
pub mod imports;
pub mod modules;
pub mod references;
pub mod storeys;
pub mod workspace;
