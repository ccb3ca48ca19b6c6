//! Rules that keep the code in order, by reading it: which module may import which (`imports`), that paths, sections
//! and patches exist (`references`), that some code is in one storey only (`storeys`), that docstrings begin alike
//! (`docstrings`), and that the house does not grow unseen (`ceilings`). Nothing here needs PostgreSQL.

pub mod ceilings;
pub mod docstrings;
pub mod imports;
pub mod modules;
pub mod references;
pub mod storeys;
pub mod workspace;
