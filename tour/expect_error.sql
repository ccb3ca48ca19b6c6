-- Goes on if the statement before failed with the SQLSTATE in `expected`, and stops the tour if not.
\set got :SQLSTATE
\set ON_ERROR_STOP on
\set ECHO none
SELECT :'got' = :'expected' AS as_expected \gset
\if :as_expected
\else
  \warn 'The tour expected SQLSTATE' :expected 'here and got' :got
  DO $$ BEGIN RAISE 'the tour ends here'; END $$;
\endif
\set ECHO queries
