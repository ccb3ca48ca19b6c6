-- What a view with matches answers. A session that has the library of 0.1.0 cannot plan it after ALTER EXTENSION: the planner's support
-- for matches is a function that this library does not have.
SELECT * FROM public.managers ORDER BY row_key LIMIT 3;
