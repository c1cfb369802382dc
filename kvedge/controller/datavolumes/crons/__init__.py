"""DataImportCrons: golden images that are kept fresh."""
