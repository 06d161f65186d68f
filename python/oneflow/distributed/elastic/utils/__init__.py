"""What elastic training needs of data: ``elastic.utils.data``."""
