-- Which ops take the most device cycles over all their uses?
SELECT backend, arch, model, op_name, signature, uses, cycles, cycles * uses AS cycles_of_all_uses, op_id
FROM newest_ops
WHERE cycles IS NOT NULL
ORDER BY cycles_of_all_uses DESC, model, op_id
LIMIT 50
